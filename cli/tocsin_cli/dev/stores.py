"""The databases of the dev server: PostgreSQL and the broker from wheels, started at the same time.

Without `--data` they keep nothing: their directories are temporary, durability is off, and their supervisors
remove them even after a SIGKILL of the dev server. With it, both keep their files in that directory.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres, EmbeddedServerError
from tocsin_cli.dev.children import Events, watch_foreign
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure

_FAST: dict[str, str | int | bool] = {
    "fsync": False,
    "synchronous_commit": False,
    "full_page_writes": False,
    "shared_buffers": "64MB",
}


@dataclass(slots=True)
class Stores:
    """Both servers; `start` begins, `wait` ends the start."""

    data: Path | None
    postgres: EmbeddedPostgres = field(init=False)
    broker: EmbeddedBroker = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)
    _errors: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.postgres = EmbeddedPostgres(self.data, settings=None if self.data else _FAST)
        self.broker = EmbeddedBroker(self.data)

    def start(self) -> None:
        """Start both, each in a thread of its own."""
        self._threads = [
            threading.Thread(target=self._start, args=(server,)) for server in (self.postgres, self.broker)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, events: Events) -> None:
        """Wait until both answer. Raises Failure."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise Failure(
                str(self._errors[0]),
                exit_code=ExitCode.UNREACHABLE,
                code="embedded_server",
                fix="correct what the message says, then start again",
            )
        watch_foreign("postgres", self.postgres.pid, events)
        watch_foreign("broker", self.broker.pid, events)

    def stop(self) -> None:
        """Stop both, also after half a start."""
        for thread in self._threads:
            thread.join()
        stopping = [threading.Thread(target=server.stop) for server in (self.broker, self.postgres)]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()

    def _start(self, server: EmbeddedPostgres | EmbeddedBroker) -> None:
        try:
            server.start()
        except (EmbeddedServerError, OSError) as error:
            self._errors.append(error)
