"""A TCP relay in front of a server, for networks that fail: it can swallow, delay, cut, and lose one answer.

Protocol: one thread per direction of each connection. What is swallowed is read and thrown away, so that the
sender notices nothing, as when packets are lost beyond the first hop; it does not come later.

Weakness: the sender's kernel gets its acknowledgements, which a network that is cut would not send.
"""

from __future__ import annotations

import socket
import threading
import time
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
        self.delay = 0.0  # seconds that each piece of an answer waits
        self.trap: bytes | None = None  # the next request with these bytes is passed on, its answer is lost
        self.swallowed = threading.Event()  # set whenever something was thrown away
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """Pass everything on again. What was swallowed is missing from its connection, so all are cut."""
        spoilt = self.swallow_requests or self.swallow_answers
        self.swallow_requests = self.swallow_answers = False
        self.delay, self.trap = 0.0, None
        if spoilt:
            self.cut()

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

    def _lose_answer(self, client: socket.socket) -> None:
        """The server has the request and will act on it; the client sees a connection that ends."""
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.swallow_answers if answers else self.swallow_requests:
                    self.swallowed.set()
                    continue
                if answers and self.delay:
                    time.sleep(self.delay)
                sink.sendall(data)
                if not answers and self.trap is not None and self.trap in data:
                    self.trap = None
                    self.swallowed.set()
                    self._lose_answer(source)
                    return
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._sockets.discard(source)
        source.close()
