"""An HTTP/1.1 receiver for tests, as a process of its own: it logs every request, then behaves as the path
says.

Protocol: `python -I -S receiver_server.py <log>` prints `listening on <port>`. Each request becomes one
JSON line, appended in one write before the answer starts: received_at (epoch nanoseconds), method, path
(with query), headers (lower-case names), body (text, at most 4 KiB), body_bytes.

Paths: /ok, /status/<code>[?times=n] (the first n for each Idempotency-Key, then 200), /slow?seconds=,
/trickle[?seconds=] (one byte a second), /big?bytes=, /retry-after?seconds=&times= (429), /hold until
/release, /close (no answer), /redirect?to=&status= (302), /drip (one byte of the head a second). /control/wait?beyond=n&timeout=s answers when more than n requests are logged;
it is not logged.

Standard library only, so that it starts fast and its behaviour depends on no framework. Limits: 64 KiB of
headers, 16 MiB of body.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

_LOGGED_BODY_BYTES = 4096
_HEADER_BYTES = 64 * 1024
_BODY_BYTES = 16 * 1024 * 1024
_CHUNK = b"x" * 65536


@dataclass(slots=True)
class Request:
    """One parsed request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The path without its query."""
        return urlsplit(self.target).path

    def text(self, name: str) -> str:
        """A text from the query, empty when it is not there."""
        return parse_qs(urlsplit(self.target).query).get(name, [""])[0]

    def number(self, name: str, default: float) -> float:
        """A number from the query."""
        values = parse_qs(urlsplit(self.target).query).get(name)
        return float(values[0]) if values else default


class Server:
    """The state that all connections share."""

    def __init__(self, log: int) -> None:
        self.log = log
        self.logged = 0
        self.arrived = asyncio.Condition()
        self.released = asyncio.Event()
        self.failures: Counter[tuple[str, str]] = Counter()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection, one after the other."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while (request := await _read(reader)) is not None:
                if request.path == "/control/wait":
                    await self._wait(request, writer)
                    continue
                await self._record(request)
                if not await self._answer(request, writer):
                    break
        writer.close()

    async def _record(self, request: Request) -> None:
        line = {
            "received_at": time.time_ns(),
            "method": request.method,
            "path": request.target,
            "headers": request.headers,
            "body": request.body[:_LOGGED_BODY_BYTES].decode(errors="replace"),
            "body_bytes": len(request.body),
        }
        os.write(self.log, json.dumps(line).encode() + b"\n")
        self.logged += 1
        async with self.arrived:
            self.arrived.notify_all()

    async def _wait(self, request: Request, writer: asyncio.StreamWriter) -> None:
        beyond = request.number("beyond", 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.number("timeout", 30)), self.arrived:
                await self.arrived.wait_for(lambda: self.logged > beyond)
        await _send(writer, 200, str(self.logged).encode())

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Behave as the path says; False ends the connection."""
        match request.path.strip("/").split("/"):
            case ["ok"]:
                await _send(writer, 200, b"ok")
            case ["status", code]:
                await _send(writer, int(code) if self._fails(request) else 200, b"")
            case ["slow"]:
                await asyncio.sleep(request.number("seconds", 5))
                await _send(writer, 200, b"slow")
            case ["trickle"]:
                await _trickle(writer, request.number("seconds", float("inf")))
                return False
            case ["big"]:
                await _big(writer, int(request.number("bytes", 1 << 20)))
            case ["retry-after"]:
                seconds = f"Retry-After: {int(request.number('seconds', 1))}\r\n"
                await (
                    _send(writer, 429, b"", seconds) if self._fails(request) else _send(writer, 200, b"ok")
                )
            case ["hold"]:
                await self.released.wait()
                await _send(writer, 200, b"released")
            case ["release"]:
                self.released.set()
                await _send(writer, 200, b"released")
            case ["close"]:
                return False
            case ["redirect"]:
                location = f"Location: {request.text('to')}\r\n"
                await _send(writer, int(request.number("status", 302)), b"moved", location)
            case ["drip"]:
                await _drip(writer)
                return False
            case _:
                await _send(writer, 404, b"no such path")
        return True

    def _fails(self, request: Request) -> bool:
        """Whether this is one of the first `times` requests with its key; without `times`, always."""
        key = (request.target, request.headers.get("idempotency-key", ""))
        self.failures[key] += 1
        return self.failures[key] <= request.number("times", float("inf"))


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(min(size, _BODY_BYTES))
            await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n")
    else:
        body = await reader.readexactly(min(int(headers.get("content-length", 0)), _BODY_BYTES))
    return Request(method, target, headers, body)


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes, extra: str = "") -> None:
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"
    length = "" if status in (204, 304) else f"Content-Length: {len(body)}\r\n"
    writer.write(f"HTTP/1.1 {status} {phrase}\r\n{length}{extra}\r\n".encode() + body)
    await writer.drain()


async def _trickle(writer: asyncio.StreamWriter, seconds: float) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(1)


async def _drip(writer: asyncio.StreamWriter) -> None:
    for byte in itertools.chain(b"HTTP/1.1 200 OK\r\nX-Long: ", itertools.repeat(0x2E)):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def _big(writer: asyncio.StreamWriter, size: int) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
    for part in _parts(size):
        writer.write(part)
        await writer.drain()


def _parts(size: int) -> Iterator[bytes]:
    while size > 0:
        yield _CHUNK[:size]
        size -= len(_CHUNK)


async def main(log_path: str) -> None:
    """Listen on a free loopback port until killed."""
    state = Server(os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
    server = await asyncio.start_server(state.connection, "127.0.0.1", 0, limit=_HEADER_BYTES, backlog=1024)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
