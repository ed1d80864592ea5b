"""The tests' HTTP receiver on port 8080 of a container: `witness.py LOG` writes each call down before it answers.

The log is the witness of the cluster test: it knows nothing of the store, the broker or the workers.
"""

from __future__ import annotations

import asyncio
import os
import sys

from receiver_server import Server  # mounted beside this file


async def main(log: str) -> None:
    """Serve until the container ends."""
    state = Server(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
    server = await asyncio.start_server(state.connection, "0.0.0.0", 8080, limit=65_536, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
