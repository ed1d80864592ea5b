"""What a shard fires next: what is on time at once, what is late at the recovery rate.

Pure; times are seconds on the node's monotonic clock. A partition is *late* when it has a trigger older than LATE_S
that was due before this node had the partition, or before the loop went on after a stall of more than LATE_S. What
only waits because more is due at once than can be fired, as at the top of an hour, is not late in this sense.

Late partitions wait in a lane of their own, so that after an outage, or a takeover from a node that was long dead,
what is on time elsewhere does not queue behind them. The oldest go first, TOGETHER at once, each with an equal
part of the tokens there are. While the oldest trigger grows older for PATIENCE_S, the rate is too low for what
comes in meanwhile and is doubled; it falls back when nothing is late.

Weakness: within a late partition, what is on time waits behind what is late.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from beatshard.rate import Bucket
from beatshard.wheel import Entry, Wheel

LATE_S = 10.0  # seconds after which a trigger counts as part of a recovery
PATIENCE_S = 30.0
TOGETHER = 64  # late partitions in one transaction
_SHARE = 0.1  # of a second's tokens are waited for, so that a transaction is worth it
_WAIT = 0.05  # seconds between two looks at the tokens
_MAX_DOUBLINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Fire these partitions (and when each was due), at most `limit` triggers each."""

    due: dict[int, float]
    limit: int
    late: bool


class Agenda:
    """See the module; used by the shard's thread only."""

    def __init__(self, recovery_rate: float) -> None:
        self._rate = recovery_rate
        self._wheel = Wheel()
        self._late: dict[int, tuple[float, int]] = {}  # partition → (oldest, triggers)
        self._bucket = Bucket(recovery_rate)
        self._doublings = 0
        self._oldest: tuple[float, float] | None = None  # (when judged, how old)
        self._since: dict[int, float] = {}  # partition → when this node got it
        self._flowing_since = float("-inf")
        self._picked_at = float("-inf")

    def own(self, partitions: Collection[int], now: float) -> None:
        """These partitions are this node's, the new ones among them since `now`."""
        self._since = {partition: self._since.get(partition, now) for partition in partitions}

    def replace(self, entries: Iterable[Entry], now: float) -> None:
        """Forget everything and hold these, as a look ahead saw them."""
        known = list(entries)
        late = {partition for due, partition, _ in known if self._is_late(due, partition, now)}
        self._late = {}
        self._wheel.replace(entry for entry in known if entry[1] not in late)
        for due, partition, count in known:
            if partition in late:
                self._add_late(due, partition, count)
        self._judge(now)

    def add(self, due: float, partition: int, now: float, count: int = 1) -> None:
        """This is due as well."""
        if partition in self._late or self._is_late(due, partition, now):
            self._add_late(due, partition, count)
        else:
            self._wheel.add(due, partition, count)

    def wake_at(self, now: float) -> float | None:
        """When there may be something to fire."""
        due = self._wheel.next_due()
        late = now + _WAIT if self._late else None
        return due if late is None else late if due is None else min(due, late)

    def pick(self, now: float, batch: int, per_partition: int) -> Pick | None:
        """Take out what to fire now, about `batch` triggers; None when nothing may be fired."""
        self._notice_stall(now)
        taken = self._wheel.pop_due(now, batch)
        if taken:
            return Pick(due=taken, limit=per_partition, late=False)
        return self._pick_late(now, batch, per_partition)

    def spend(self, count: int) -> None:
        """So many late triggers were fired."""
        self._bucket.take(count)

    @property
    def recovery_rate(self) -> float:
        """Late triggers a second, as it is now."""
        return float(self._rate * 2**self._doublings)

    def _notice_stall(self, now: float) -> None:
        stalled = now - self._picked_at > LATE_S
        self._picked_at = now
        if not stalled:
            return
        self._flowing_since = now
        for partition, due in self._wheel.pop_due(now, sys.maxsize).items():
            self.add(due, partition, now)  # how many there are, the next look tells

    def _is_late(self, due: float, partition: int, now: float) -> bool:
        return now - due > LATE_S and due < max(self._flowing_since, self._since.get(partition, now))

    def _pick_late(self, now: float, batch: int, per_partition: int) -> Pick | None:
        if not self._late:
            return None
        total = sum(count for _, count in self._late.values())
        tokens = min(batch, self._bucket.available(now))
        if tokens < max(1.0, min(total, batch, self.recovery_rate * _SHARE)):
            return None
        oldest = heapq.nsmallest(min(TOGETHER, tokens), self._late, key=lambda p: self._late[p][0])
        limit = min(per_partition, max(1, tokens // len(oldest)))
        due = {partition: self._late[partition][0] for partition in oldest}
        for partition in oldest:
            at, count = self._late.pop(partition)
            if count > limit:
                self._late[partition] = (at, count - limit)
        return Pick(due=due, limit=limit, late=True)

    def _add_late(self, due: float, partition: int, count: int) -> None:
        at, before = self._late.get(partition, (due, 0))
        self._late[partition] = (min(at, due), before + count)

    def _judge(self, now: float) -> None:
        """Double the rate while what is late only grows older."""
        if not self._late:
            if self._doublings:
                self._doublings = 0
                self._bucket.set_rate(self._rate)
            self._oldest = None
            return
        age = now - min(due for due, _ in self._late.values())
        if self._oldest is None or age < self._oldest[1]:
            self._oldest = (now, age)
        elif now - self._oldest[0] >= PATIENCE_S:
            self._doublings = min(self._doublings + 1, _MAX_DOUBLINGS)
            self._bucket.set_rate(self.recovery_rate)
            self._oldest = (now, age)
