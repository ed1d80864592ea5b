"""The partitions of one shard that this node fires: taken, left and lost as the coordinator says.

Which partitions the shard has may change under way: `ShardMap`. One that moves to another shard cannot be taken
here, and is taken by that shard's loop once it has arrived.

Taking raises the epoch, then publishes again what the predecessor had not confirmed, and only then are the
partitions fired. Leaving is the reverse: nothing more is fired, what is under way is confirmed, the watermark is
written, the partition is given up in Postgres and then to the coordinator. Losing is immediate.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import psycopg

from beatshard.coordinator import Coordinator
from beatshard.handover import HandOver
from beatshard.watermark import Batch
from tocsin.clock import monotonic
from tocsin.store import partitions, places
from tocsin.store.shards import Shard, ShardMap

log = logging.getLogger(__name__)
_DRAIN = 5.0  # seconds
_PAGE = 1000  # runs published again in one batch
_TAKE_AGAIN = 0.25  # seconds before partitions that could not be taken are tried again
_WARN_AGAIN = 30.0  # seconds
_INSTANT = timedelta(microseconds=1)


class Ownership:
    """See the module; used by the shard's thread only, but for the counts."""

    def __init__(self, shard: Shard, shards: ShardMap, coordinator: Coordinator, out: HandOver) -> None:
        self._shard = shard
        self._shards = shards
        self._coordinator = coordinator
        self._out = out
        self.owned: dict[int, int] = {}  # partition → epoch
        self._take_again_at = 0.0
        self._warn_at = 0.0

    @property
    def settled(self) -> bool:
        """Whether everything the coordinator gives is owned here."""
        return self._coordinator.held() & self.range == self.owned.keys()

    @property
    def range(self) -> frozenset[int]:
        """The partitions that the shard has at present."""
        return self._shards.partitions_of(self._shard)

    def follow(self, conn: psycopg.Connection[Any]) -> bool:
        """Do what the coordinator says; True when partitions were taken."""
        mine = self.range
        held = self._coordinator.held() & mine
        self.drop(self.owned.keys() - held)
        leaving = self._coordinator.surplus() & mine
        if leaving:
            self.leave(conn, leaving)
        missing = held - leaving - self.owned.keys()
        if not missing or self._out.full or monotonic() < self._take_again_at:
            return False
        before = len(self.owned)
        self._take(conn, missing)
        if missing - self.owned.keys():
            # The publisher is full, or they move: the shard says where they are.
            self._take_again_at = monotonic() + _TAKE_AGAIN
            places.learn(conn, self._shards, self._shard)
            self._warn(missing & self.range - self.owned.keys())
        return len(self.owned) > before

    def _warn(self, missing: frozenset[int]) -> None:
        """Say so when partitions stay refused for no reason known here."""
        if self._out.full or all(map(self._shards.moving, missing)) or monotonic() < self._warn_at:
            return
        self._warn_at = monotonic() + _WARN_AGAIN
        log.warning(
            "partitions_refused shard=%s count=%d: it has moved them to a database that TOCSIN_DATABASE_URL "
            "does not name, or lacks their rows (tocsin db upgrade)",
            self._shard.name,
            len(missing),
        )

    def drop(self, lost: Collection[int]) -> None:
        """Fire these no more; somebody else may own them already."""
        for partition in lost:
            self.owned.pop(partition, None)

    def forget(self) -> None:
        """Own nothing; what the coordinator still gives is taken anew, with a new epoch."""
        self.owned.clear()
        self._take_again_at = 0.0

    def _take(self, conn: psycopg.Connection[Any], wanted: Collection[int]) -> None:
        node_id = self._coordinator.node_id
        # So that pg_stat_activity, and a trigger that audits, tell whose statements these are.
        conn.execute("SELECT set_config('application_name', %s, false)", (f"tocsin beat {node_id}",))
        taken = partitions.take(conn, sorted(wanted), node_id)
        epochs = {each.partition: each.epoch for each in taken}
        again = 0
        for partition in partitions.behind(conn, list(epochs)):
            if self._out.full:
                del epochs[partition]  # taken anew once there is room
            else:
                again += self._publish_again(conn, partition, epochs[partition])
        self.owned.update(epochs)
        if not epochs:
            return
        log.info("partitions_taken shard=%s count=%d republished=%d", self._shard.name, len(epochs), again)

    def _publish_again(self, conn: psycopg.Connection[Any], partition: int, epoch: int) -> int:
        count, after = 0, None
        while True:
            page = partitions.unpublished(conn, partition, after, limit=_PAGE)
            if page.runs and page.fired_at is not None:
                # Runs of one transaction share `fired_at`, and the next page may hold more of them.
                mark = page.fired_at if page.after is None else page.fired_at - _INSTANT
                self._out.send(Batch(runs=page.runs, marks={partition: (epoch, mark)}))
            count += len(page.runs)
            after = page.after
            if after is None:
                return count

    def leave(self, conn: psycopg.Connection[Any], leaving: Collection[int]) -> None:
        """Hand these over in order."""
        mine = {partition: self.owned[partition] for partition in leaving if partition in self.owned}
        if mine:
            self._out.drain(conn, self.owned, _DRAIN)
            partitions.give_up(conn, mine)
        self.drop(leaving)
        self._coordinator.release(leaving)
        log.info("partitions_left shard=%s count=%d", self._shard.name, len(leaving))

    def leave_all(self, conn: psycopg.Connection[Any]) -> None:
        """At the end of the node."""
        self.leave(conn, list(self.owned))
