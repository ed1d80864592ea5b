"""What the firing side knows of a publisher: batches go in, a callback says when each is confirmed.

A publisher loses no run that was handed to it while the process lives: whatever goes wrong, it publishes the
same run IDs again until they are confirmed. A run may reach the broker twice; its second claim finds nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from beatshard.watermark import Batch
from tocsin.clock import monotonic

Confirmed = Callable[[Batch], None]
Job = tuple[Batch, Confirmed]


class Publisher(Protocol):
    """Runs in a thread of its own."""

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
