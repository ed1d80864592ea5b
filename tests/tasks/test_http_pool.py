"""Connections are used again, never after the server has closed them, and never without a bound."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpcore
import httpx

from tocsin_tasks.http_pool import PooledTransport


class Server:
    """Counts its connections; closes each after the answer when `close` is set, without saying so."""

    def __init__(self, *, close: bool = False) -> None:
        self.connections = 0
        self.close = close
        self.closed = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self.gate.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                if self.close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        await writer.wait_closed()
        self.closed.set()


@asynccontextmanager
async def running(
    server: Server, idle_limit: int = 10
) -> AsyncIterator[tuple[httpx.AsyncClient, str, PooledTransport]]:
    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    transport = PooledTransport(
        verify=ssl.create_default_context(),
        idle_limit=idle_limit,
        network=httpcore.AnyIOBackend(),
    )
    async with listener, httpx.AsyncClient(transport=transport, trust_env=False) as client:
        yield client, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/", transport


def test_a_connection_is_used_again() -> None:
    async def main() -> None:
        server = Server()
        async with running(server) as (client, url, _):
            for _ in range(5):
                assert (await client.get(url)).text == "ok"
            assert server.connections == 1

    asyncio.run(main())


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def main() -> None:
        server = Server(close=True)
        async with running(server) as (client, url, _):
            for count in range(1, 4):
                assert (await client.get(url)).text == "ok"
                await server.closed.wait()
                server.closed.clear()
                assert server.connections == count

    asyncio.run(main())


def test_calls_at_once_have_a_connection_each_and_the_idle_ones_are_bounded() -> None:
    async def main() -> None:
        server = Server()
        server.gate.clear()
        async with running(server, idle_limit=3) as (client, url, transport):
            calls = [asyncio.create_task(client.get(url)) for _ in range(8)]
            while server.connections < 8:  # noqa: ASYNC110
                await asyncio.sleep(0)
            server.gate.set()
            assert [answer.text for answer in await asyncio.gather(*calls)] == ["ok"] * 8
            assert len(transport._idle) == 3

    asyncio.run(main())


def test_a_call_that_is_cancelled_leaves_no_connection_behind() -> None:
    async def main() -> None:
        server = Server()
        server.gate.clear()
        async with running(server) as (client, url, transport):
            call = asyncio.create_task(client.get(url))
            while server.connections < 1:  # noqa: ASYNC110
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            server.gate.set()
            await asyncio.wait_for(server.closed.wait(), 5)
            assert not transport._idle

    asyncio.run(main())
