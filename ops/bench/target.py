"""A small HTTP server beside the workers: answers every request, refuses a share of the runs once.

    python ops/bench/target.py [SHARE]

Prints its port. With SHARE, that part of the runs gets 503 at its first attempt; which ones is decided by the
run ID, so it is the same share at any rate.
"""

from __future__ import annotations

import asyncio
import re
import sys
import zlib

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n"
_KEY = re.compile(rb"(?i)\r\nidempotency-key: *\"?([^\"\r]+)")
_ATTEMPT = re.compile(rb"(?i)\r\ntocsin-attempt: *1\r\n")


async def serve(share: float) -> None:
    """Answer until the process is told to end."""

    def answer(head: bytes) -> bytes:
        if share <= 0 or not _ATTEMPT.search(head):
            return _OK
        key = _KEY.search(head)
        return _BUSY if key and zlib.crc32(key[1]) % 10_000 < share * 10_000 else _OK

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                writer.write(answer(head))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
