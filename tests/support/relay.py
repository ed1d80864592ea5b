"""A TCP relay in front of a server, for networks that fail: it can swallow one direction or both, and cut.

Protocol: one thread per direction of each connection. What is swallowed is read and thrown away, so that the
sender notices nothing, as when packets are lost beyond the first hop; it does not come later.

Weakness: the sender's kernel gets its acknowledgements, which a network that is cut would not send.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class Relay:
    """Listens on a free port of the loopback interface and passes on to `port`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self.swallow_requests = False
        self.swallow_answers = False
        self.swallowed = threading.Event()  # set whenever something was thrown away
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._sockets |= {client, server}
                for source, sink, answers in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, sink, answers), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.swallow_answers if answers else self.swallow_requests:
                    self.swallowed.set()
                else:
                    sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._sockets.discard(source)
        source.close()
