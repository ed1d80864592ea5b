"""A private PgBouncer in transaction mode before one Postgres server, on loopback.

Protocol: the configuration is Debian's but for addresses, `pool_mode` and a small pool, so that server connections
are shared and whatever a session leaves behind is met by another. It runs in the foreground; root's process drops to
`nobody`, since PgBouncer refuses to be root. Clients need no password; the one of the server is in the configuration.

Weakness: the port is chosen before it is bound.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from support.databases import libpq
from support.processes import Process
from support.rabbitmq import MissingServiceError
from tocsin.embedded.supervised import free_port

_SERVER = Path("/usr/sbin/pgbouncer")
_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server_port} user={user} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
{run_as}
"""


class PgBouncer:
    """One PgBouncer; as a context manager it ends with the block."""

    def __init__(self, directory: Path, server_url: str) -> None:
        if not _SERVER.exists():
            raise MissingServiceError("PgBouncer is not installed; run: make services")
        self._directory = directory
        self.port = free_port()
        server = urlsplit(libpq(server_url))
        text = _CONFIGURATION.format(
            server_port=server.port,
            user=server.username,
            password=server.password,
            port=self.port,
            run_as="user = nobody" if os.geteuid() == 0 else "",
        )
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "pgbouncer.ini").write_text(text)
        self._process: Process | None = None

    def url_of(self, direct_url: str) -> str:
        """The address of the same database through the pooler."""
        database = urlsplit(libpq(direct_url)).path
        return f"postgresql+psycopg://tocsin@127.0.0.1:{self.port}{database}"

    def start(self) -> Self:
        """Start it and wait until it listens."""
        self._process = Process([_SERVER, self._directory / "pgbouncer.ini"], name="pgbouncer")
        self._process.wait_for_line(r"process up", timeout=20.0)
        return self

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
