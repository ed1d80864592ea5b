"""Connections to targets, kept for their next use: httpx's transport for thousands of calls at once.

httpcore's own pool goes through all its connections at the start and at the end of each request: measured with
500 calls at once, 107 requests a second, against 1,077 with 10. Here taking and putting back cost the same
whatever the number: a stack of idle connections per origin, the most recently used on top.

Limits: `idle_limit` idle connections in all, the one idle for longest goes first; each is dropped after
KEEPALIVE_SECONDS. Connections in use are as many as requests, which the caller bounds. HTTP/1.1 only:
docs/decisions/0014-http-calls.md says why.

Weakness: an idle connection is closed when it is found expired or pushed out, not by a timer.
"""

from __future__ import annotations

import importlib.util
import ssl
import sys
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator
from typing import cast

import httpcore
import httpx

KEEPALIVE_SECONDS = 5.0

if importlib.util.find_spec("sniffio") is None:
    # httpcore tries to import it for every lock it takes; this makes the failure cheap.
    sys.modules["sniffio"] = None  # type: ignore[assignment]

_Key = tuple[bytes, bytes, int]  # scheme, host, port
_Idle = OrderedDict[httpcore.AsyncHTTPConnection, _Key]


class PooledTransport(httpx.AsyncBaseTransport):
    """Used on one loop. Raises httpcore's exceptions."""

    def __init__(
        self, *, verify: ssl.SSLContext, idle_limit: int, network: httpcore.AsyncNetworkBackend
    ) -> None:
        self._verify = verify
        self._idle_limit = idle_limit
        self._idle: _Idle = OrderedDict()  # the longest idle first
        self._by_origin: dict[_Key, list[httpcore.AsyncHTTPConnection]] = {}
        self._network = network

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send on an idle connection of the origin, or on a new one."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        message = httpcore.Request(
            request.method,
            url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        origin = url.origin
        key = (origin.scheme, origin.host, origin.port)
        connection = await self._take(key) or self._connect(origin)
        try:
            answer = await connection.handle_async_request(message)
        except BaseException:
            await connection.aclose()
            raise
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, self, key, connection)
        )

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await self._forget(next(iter(self._idle)))

    async def put_back(self, key: _Key, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keep a connection whose answer has been read to its end; close any other."""
        if not connection.is_idle() or connection.has_expired():
            await connection.aclose()
            return
        self._idle[connection] = key
        self._by_origin.setdefault(key, []).append(connection)
        if len(self._idle) > self._idle_limit:
            await self._forget(next(iter(self._idle)))

    def _connect(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        return httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=self._verify,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=self._network,
        )

    async def _take(self, key: _Key) -> httpcore.AsyncHTTPConnection | None:
        while stack := self._by_origin.get(key):
            connection = stack[-1]
            if not connection.has_expired():  # it also looks whether the server has closed it
                self._remove(connection)
                return connection
            await self._forget(connection)
        return None

    def _remove(self, connection: httpcore.AsyncHTTPConnection) -> None:
        key = self._idle.pop(connection)
        stack = self._by_origin[key]
        # The top of the stack is taken, its bottom pushed out: both ends are near.
        stack.remove(connection) if stack[-1] is not connection else stack.pop()
        if not stack:
            del self._by_origin[key]

    async def _forget(self, connection: httpcore.AsyncHTTPConnection) -> None:
        self._remove(connection)
        await connection.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer; closing it puts the connection back."""

    def __init__(
        self,
        answer: httpcore.Response,
        transport: PooledTransport,
        key: _Key,
        connection: httpcore.AsyncHTTPConnection,
    ) -> None:
        self._answer, self._transport, self._key, self._connection = answer, transport, key, connection
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in cast("AsyncIterable[bytes]", self._answer.stream):
            yield part

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._answer.aclose()
        finally:
            await self._transport.put_back(self._key, self._connection)
