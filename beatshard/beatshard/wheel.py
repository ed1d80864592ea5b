"""The timer wheel of one shard: which partitions have triggers due, and when.

Pure and in memory. It is rebuilt at every look ahead, so it holds no more than one of them has seen.

Times are seconds on the node's monotonic clock, translated from the database's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

Entry = tuple[float, int, int]  # (due, partition, triggers)


class Wheel:
    """A heap of what is due."""

    def __init__(self) -> None:
        self._heap: list[Entry] = []

    def __len__(self) -> int:
        return len(self._heap)

    def replace(self, entries: Iterable[Entry]) -> None:
        """Forget everything and hold these."""
        self._heap = list(entries)
        heapq.heapify(self._heap)

    def add(self, due: float, partition: int, count: int = 1) -> None:
        heapq.heappush(self._heap, (due, partition, count))

    def next_due(self) -> float | None:
        """When the first entry is due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float, limit: int) -> dict[int, float]:
        """Take partitions that are due, until their triggers are `limit`; when each was due at the latest."""
        taken: dict[int, float] = {}
        total = 0
        while self._heap and self._heap[0][0] <= now and total < limit:
            due, partition, count = heapq.heappop(self._heap)
            taken[partition] = due
            total += count
        return taken
