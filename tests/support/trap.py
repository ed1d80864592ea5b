"""A server on every local address that counts its connections and answers `caught`, with `hold` not before `release`."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Self


class Trap:
    """Used on one loop: `async with Trap() as trap`. `requests` holds the heads that came."""

    def __init__(
        self, host: str | None = None, port: int = 0, *, tls: ssl.SSLContext | None = None, hold: bool = False
    ) -> None:
        self._host, self._wanted, self._tls = host, port, tls
        self.connections = 0
        self.release = asyncio.Event()
        if not hold:
            self.release.set()
        self.requests: list[str] = []

    async def __aenter__(self) -> Self:
        if self._host is None:  # IPv4 and IPv6 on one port
            listening = socket.create_server(
                ("::", self._wanted), family=socket.AF_INET6, dualstack_ipv6=True
            )
            self._server = await asyncio.start_server(self._serve, sock=listening, ssl=self._tls)
        else:
            self._server = await asyncio.start_server(self._serve, self._host, self._wanted, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.release.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\ncaught")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
