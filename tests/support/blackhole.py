"""A TCP relay on loopback that can go silent: connections stay open, what is sent into them is lost.

Protocol: `swallow` loses everything from then on, in both directions, on old and new connections; there is no
way back. Peers see a host that acknowledges bytes and never answers, as a stopped process does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_BYTES = 65536


class Blackhole:
    """Relays to a port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._silent = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def swallow(self) -> None:
        """Go silent for good."""
        self._silent.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [near, far]
                self._start(self._relay, near, far)
                self._start(self._relay, far, near)

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BYTES):
                if not self._silent.is_set():
                    sink.sendall(data)
            if not self._silent.is_set():
                sink.shutdown(socket.SHUT_WR)

    @staticmethod
    def _start(target: object, *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]
