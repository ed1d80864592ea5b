"""From the firing thread to the publisher and back: batches go out, watermarks come in. One per shard.

A batch is registered before it is published, in the order of its transaction; `write_marks` then stores how far
everything is confirmed. What dies in between is found by the next owner of the partition, beyond its watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from beatshard import crash
from beatshard.publisher import Publisher
from beatshard.watermark import Batch, Tracker, marks_of
from tocsin.store import partitions
from tocsin.store.partitions import Connection, QueuedRun

log = logging.getLogger(__name__)
_LIMIT = 20_000  # runs without a confirm, of all shards of the node, beyond which nothing more is fired


class HandOver:
    """See the module."""

    def __init__(self, shard_name: str, publisher: Publisher) -> None:
        self._shard_name = shard_name
        self._publisher = publisher
        self._tracker = Tracker()

    @property
    def full(self) -> bool:
        """Whether the publisher has as much as it may hold."""
        return self._publisher.backlog >= _LIMIT

    def send(self, batch: Batch) -> None:
        """A committed batch to the publisher; from here on it is confirmed or found by a takeover."""
        crash.point("after-commit-before-publish")
        self._tracker.register(batch)
        self._publisher.publish(batch, self._tracker.confirm)

    def send_runs(self, runs: list[QueuedRun], fired_at: datetime | None, owned: Mapping[int, int]) -> None:
        """The runs of one transaction that was made under these epochs."""
        if runs and fired_at is not None:
            self.send(Batch(runs=runs, marks=marks_of(runs, fired_at, owned)))

    def write_marks(self, conn: Connection, owned: Mapping[int, int]) -> set[int]:
        """Remember what has been confirmed since the last time; returns partitions that are no longer ours.

        A mark from under an epoch that this node has replaced by a newer one is left out: it cannot be
        written, and says nothing about who owns the partition now.
        """
        marks = {p: mark for p, mark in self._tracker.take().items() if owned.get(p) == mark[0]}
        if not marks:
            return set()
        crash.point("after-confirm-before-watermark")
        return partitions.set_watermarks(conn, marks)

    def drain(self, conn: Connection, owned: Mapping[int, int], timeout: float) -> None:
        """Wait for the confirms of what this shard has under way, at most `timeout` seconds; write the marks.

        The shard fires nothing meanwhile, so the wait is as long as the publisher needs for what is there;
        other shards go on and keep the publisher busy.
        """
        if not self._tracker.wait_closed(timeout):
            log.warning("drain_incomplete shard=%s batches=%d", self._shard_name, self._tracker.open)
        self.write_marks(conn, owned)
