"""Which part of what was fired is confirmed: pure bookkeeping of one shard.

Batches are registered in the order in which their transactions were made, confirmed in any order. The marks
that may be written are those of the longest confirmed prefix: before them nothing is unconfirmed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tocsin.store.partitions import QueuedRun

Marks = dict[int, tuple[int, datetime]]  # partition → (epoch, fired_at)


@dataclass(slots=True, kw_only=True, eq=False)
class Batch:
    """Runs committed together; `left` of them are not confirmed yet."""

    runs: list[QueuedRun]
    marks: Marks
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.runs)


class Tracker:
    """The batches of one shard. `register` is the shard's thread, `confirm` the publisher's."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._ready: Marks = {}

    def register(self, batch: Batch) -> None:
        """The batch is committed; it is about to be handed to the publisher."""
        with self._lock:
            self._batches.append(batch)

    def confirm(self, batch: Batch) -> None:
        """Every run of the batch has been confirmed."""
        with self._lock:
            batch.left = 0
            while self._batches and self._batches[0].left == 0:
                self._ready.update(self._batches.popleft().marks)
            if not self._batches:
                self._lock.notify_all()

    def take(self) -> Marks:
        """The marks that may be written now; they are handed out once."""
        with self._lock:
            ready, self._ready = self._ready, {}
            return ready

    def wait_closed(self, timeout: float) -> bool:
        """Wait until every batch is confirmed, at most `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._batches, timeout)

    @property
    def open(self) -> int:
        """Batches that are not confirmed."""
        with self._lock:
            return len(self._batches)


def marks_of(runs: list[QueuedRun], fired_at: datetime, epochs: Mapping[int, int]) -> Marks:
    """The marks of a batch that was fired in one transaction."""
    return {run.partition: (epochs[run.partition], fired_at) for run in runs}
