"""Connects to checked addresses only: the part of the HTTP client that opens TCP connections.

A host is resolved once for a connection. Every address that comes back must be one that the policy lets
through, else nothing is tried; then a connection is made to those very addresses, one after the other, so a
second answer of the name server is never asked for. The host name stays in the Host header and in SNI, which
are made above this. Redirects come through here as any other request does, and an idle connection was checked
when it was opened.

Limits: RESOLVER_THREADS look-ups at once, one per host however many wait for it; ADDRESSES tried, each for
CONNECT_SECONDS at most, the last one until the attempt's deadline.

Weakness: a look-up in the C library cannot be cut short; it holds its thread until the name server's timeout. So
jobs with as many names whose servers are silent hold up the look-ups of others, within their deadlines.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore

from tocsin.addresses import Address, plain
from tocsin.egress import Egress

RESOLVER_THREADS = 64
ADDRESSES = 8
CONNECT_SECONDS = 5.0
Resolver = Callable[[str, int], list[str]]


class TargetRefusedError(Exception):
    """The target's address is none that the policy lets through; the words name no address of a name."""


def system_resolver(host: str, port: int) -> list[str]:
    """The addresses of a host, as the C library orders them. Blocks. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(f"{host[:80]!r} is no host name") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """httpcore's network of one process; used on one loop."""

    def __init__(self, egress: Egress, resolver: Resolver = system_resolver) -> None:
        self._egress = egress
        self._resolver = resolver
        self._network = httpcore.AnyIOBackend()
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "resolver")
        self._asked: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a checked address. Raises TargetRefusedError, httpcore.ConnectError."""
        addresses = await self._checked(host, port)
        error: Exception = httpcore.ConnectError("the name has no address")
        for number, address in enumerate(addresses, start=1):
            wait = timeout if number == len(addresses) else CONNECT_SECONDS
            try:
                return await self._network.connect_tcp(
                    str(address), port, wait, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as cause:
                error = cause
        raise error

    def close(self) -> None:
        """Let the resolver's threads end; one that waits for a name server is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _checked(self, host: str, port: int) -> list[Address]:
        literal = plain(host)
        texts = [host] if literal is not None else await self._resolve(host, port)
        addresses = []
        for text in texts:
            address = plain(text)
            kind = "unreadable" if address is None else self._egress.refusal(address, host)
            if address is None or kind is not None:
                what = "is not" if literal is not None else "leads to an address that is not"
                raise TargetRefusedError(f"the target {host} {what} public ({kind})")
            addresses.append(address)
        return addresses[:ADDRESSES]

    async def _resolve(self, host: str, port: int) -> list[str]:
        key = (host, port)
        asked = self._asked.get(key)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked[key] = loop.run_in_executor(self._threads, self._resolver, host, port)
            asked.add_done_callback(lambda done: self._answered(key, done))
        try:
            return await asyncio.shield(asked)  # others may wait for the same answer
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error

    def _answered(self, key: tuple[str, int], done: asyncio.Future[list[str]]) -> None:
        del self._asked[key]
        _ = done.cancelled() or done.exception()  # nobody may be waiting any more
