"""What the firing side knows of a publisher: batches go in, a callback says when each is confirmed.

A publisher loses no run that was handed to it while the process lives: whatever goes wrong, it publishes the
same run IDs again until they are confirmed. A run may reach the broker twice; its second claim finds nothing.
"""

from __future__ import annotations

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import random, randrange
from typing import Protocol

from beatshard.watermark import Batch
from tocsin.clock import monotonic

log = logging.getLogger(__name__)
_MAX_PAUSE = 5.0  # seconds between two attempts to connect
Confirmed = Callable[[Batch], None]
Job = tuple[Batch, Confirmed]


@dataclass(slots=True, kw_only=True)
class Counts:
    """What a publisher counts since it was made; written by its thread alone."""

    confirmed: int = 0
    refused: int = 0  # nacks
    returned: int = 0  # messages that came back for want of a queue
    connections: int = 0
    failures: int = 0  # connections given up, or not made
    blocked: int = 0  # times that the broker took no messages, its memory or disk being short


def in_turn(urls: Sequence[str]) -> Iterator[str]:
    """The brokers over and over, from a random one, so that the nodes spread over them."""
    start = randrange(len(urls))
    return cycle([*urls[start:], *urls[:start]])


class Publisher(Protocol):
    """Runs in a thread of its own."""

    @property
    def counts(self) -> Counts:
        """What it has counted."""

    @property
    def connected(self) -> bool:
        """Whether it could publish at this moment."""

    @property
    def backlog(self) -> int:
        """Runs handed in and not confirmed."""

    def start(self) -> None:
        """Connect and begin; returns at once."""

    def publish(self, batch: Batch, confirmed: Confirmed) -> None:
        """Take a batch over; `confirmed` is called from the publisher's thread."""

    def flush(self, timeout: float) -> bool:
        """Wait until everything handed in is confirmed; False when it took longer than `timeout` seconds."""

    def close(self) -> None:
        """Stop without waiting; what is not confirmed is found by the next owner."""


class Backlog:
    """What has been handed in: a queue of batches, and a count that `flush` waits on."""

    def __init__(self) -> None:
        self._incoming: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def put(self, job: Job) -> None:
        with self._changed:
            self._count += len(job[0].runs)
        self._incoming.put(job)

    def get(self, timeout: float) -> Job | None:
        """The next batch; None after `timeout` seconds without one. Zero does not wait."""
        try:
            return self._incoming.get(timeout > 0, timeout or None)
        except queue.Empty:
            return None

    def settle(self, job: Job, runs: int = 1) -> None:
        """So many runs of the batch are confirmed; the last one calls back."""
        batch, confirmed = job
        batch.left -= runs
        if batch.left == 0:
            confirmed(batch)
        with self._changed:
            self._count -= runs
            self._changed.notify_all()

    def wait_empty(self, timeout: float) -> bool:
        deadline = monotonic() + timeout
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, max(0.0, deadline - monotonic()))


class ThreadedPublisher(ABC):
    """What the publishers share: one thread that connects, works in rounds, and begins anew after any error."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._backlog = Backlog()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether it could publish at this moment."""

    @abstractmethod
    def _connect(self) -> None:
        """Connect and declare the queues."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close without raising; whatever had no confirm is to be published again."""

    @abstractmethod
    def _round(self) -> None:
        """One bounded piece of work; may wait for some, half a second at most."""

    @property
    def backlog(self) -> int:
        return self._backlog.count

    def start(self) -> None:
        self._thread.start()

    def publish(self, batch: Batch, confirmed: Confirmed) -> None:
        self._backlog.put((batch, confirmed))

    def flush(self, timeout: float) -> bool:
        return self._backlog.wait_empty(timeout)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _settle(self, job: Job) -> None:
        """One run of the batch is confirmed."""
        self.counts.confirmed += 1
        self._backlog.settle(job)

    def _run(self) -> None:
        pause = 0.1
        while not self._stopping.is_set():
            try:
                if not self.connected:
                    self._connect()
                    self.counts.connections += 1
                    pause = 0.1
                self._round()
            except Exception as error:
                self.counts.failures += 1
                log.warning(
                    "publisher_reconnects unconfirmed=%d error=%s: %s",
                    self.backlog,
                    type(error).__name__,
                    error,
                )
                self._disconnect()
                self._stopping.wait(pause * (0.5 + random() / 2))
                pause = min(pause * 2, _MAX_PAUSE)
        self._disconnect()
