"""The tests' side of the HTTP receiver: start it, read its log, wait for requests by signal.

Protocol: see `receiver_server.py` for the paths. `wait_for` reads the log, and while it does not hold
enough, asks the receiver to answer as soon as there is more.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.processes import Process

_SERVER = Path(__file__).with_name("receiver_server.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request, as logged."""

    received_at: int
    method: str
    path: str
    headers: dict[str, str]
    body: str
    body_bytes: int

    @property
    def key(self) -> str:
        """The Idempotency-Key, empty when there was none."""
        return self.headers.get("idempotency-key", "")

    @property
    def seconds(self) -> float:
        """When it came, as epoch seconds."""
        return self.received_at / 1e9

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def _any(_: Received) -> bool:
    return True


class Receiver:
    """A running receiver; its log outlives it."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self._process: Process | None = None
        self.url = ""

    def start(self) -> Self:
        """Start the process and learn its port."""
        self._process = Process(
            [sys.executable, "-I", "-S", str(_SERVER), str(self.log_path)], name="receiver"
        )
        port = self._process.wait_for_line(r"listening on (\d+)")[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def stop(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.stop()

    def requests(self, predicate: Callable[[Received], bool] = _any) -> list[Received]:
        """The logged requests, in the order in which they came."""
        if not self.log_path.exists():
            return []
        lines = self.log_path.read_bytes().split(b"\n")[:-1]  # the last part is empty or half written
        return [received for line in lines if predicate(received := Received(**json.loads(line)))]

    def wait_for(
        self, predicate: Callable[[Received], bool] = _any, count: int = 1, timeout: float = 30.0
    ) -> list[Received]:
        """Wait until `count` requests match, and return those that match then."""
        deadline = time.monotonic() + timeout
        while True:
            everything = self.requests()
            found = [received for received in everything if predicate(received)]
            left = deadline - time.monotonic()
            if len(found) >= count:
                return found
            if left <= 0:
                paths = [received.path for received in everything[-20:]]
                raise AssertionError(
                    f"{len(found)} of {count} requests after {timeout} s; the last of all: {paths}"
                )
            self._get(f"/control/wait?beyond={len(everything)}&timeout={left:.3f}", left + 5)

    def release(self) -> None:
        """Let every held request go, now and later."""
        self._get("/release", 10)

    def _get(self, path: str, timeout: float) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
            body: bytes = answer.read()
            return body

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
