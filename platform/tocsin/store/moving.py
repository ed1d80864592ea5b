"""Moving a range of partitions to another shard while everything runs.

1. The past (runs that ended a while ago) is copied, with writes going on.
2. The fence: the range's epochs are raised and its rows in `shard_moves` get a lease, in one transaction; triggers
   on the tables refuse writes while the lease lasts. Making them waits for the writers under way, so after it
   nothing changes any more. A thread renews the lease, and stops after `max_pause`.
3. The rest is copied, in one transaction of the target.
4. The switch, one commit in the source, only while the lease lasts. Before it the source has the partitions, after
   it the target has.
5. The target is told (`places.OPEN`); any process that learns of the switch would do that as well.
6. The old rows are deleted, in batches. The triggers stay: they refuse what a process with an old map writes.

Who dies before the switch leaves a lease that ends by itself, and a copy that nobody reads; the next move begins
with deleting it. Who dies after it leaves old rows, which the next call for the same range deletes.

Weaknesses: while `max_pause` is not over the range can be neither fired nor written. An error of the connection
during the switch leaves its outcome open; asking the source again tells.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from tocsin.clock import monotonic
from tocsin.store import moves_sql as sql
from tocsin.store import places
from tocsin.store.connections import Connection
from tocsin.store.moves_copy import Rows, clean, copy_past, copy_rest, drop_fences, raise_fence
from tocsin.store.moves_lease import Keeper
from tocsin.store.moves_plan import Moved, MoveError, Plan, open_direct
from tocsin.store.shards import Shard, ShardMap

__all__ = ["MoveError", "Moved", "Plan", "finish_again", "move"]
Say = Callable[[str], None]
GRACE = timedelta(seconds=10)  # for workers to find their runs in the new shard
_LOOK = "look at `tocsin shard list`"


def nothing(_: str) -> None:
    """Nobody is told."""


def move(shards: ShardMap, plan: Plan, *, say: Say = nothing, reached: Say = nothing) -> Moved:
    """Make the move. `say` tells people how far it is, `reached` names the point (for crash tests).

    Raises MoveError (nothing has changed), psycopg.Error (ask the map where the partitions are).
    """
    mover = _Mover(shards, plan, say, reached)
    try:
        return mover.run()
    finally:
        mover.close()


class _Mover:
    def __init__(self, shards: ShardMap, plan: Plan, say: Say, reached: Say) -> None:
        self._shards, self._plan, self._say, self._reached = shards, plan, say, reached
        self._id = uuid.uuid4()
        self._done = Moved()
        self._source = open_direct(plan.source)
        self._target = open_direct(plan.target)

    def run(self) -> Moved:
        self._prepare()
        rows = Rows(self._source, self._target, self._plan.first, self._plan.last, self._done.rows)
        self._expect()
        clean(self._target, self._plan.first, self._plan.last)
        cut = copy_past(rows)
        self._say(f"copied the past: {self._done.rows.get('runs', 0)} runs")
        self._reached("move-past-copied")
        begun = monotonic()
        try:
            self._fence(rows, cut)
        except BaseException:
            self._give_up()
            raise
        self._reached("move-switched")
        self._learn()
        self._done.pause = monotonic() - begun
        for conn in (self._source, self._target):
            conn.execute("SELECT pg_notify('tocsin', '')")
        self._say(f"switched; the range could not be written for {self._done.pause:.2f} s")
        self._reached("move-opened")
        self._done.deleted = finish(self._shards, self._plan, self._source, self._target)
        return self._done

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def _learn(self) -> None:
        for conn, shard in ((self._source, self._plan.source), (self._target, self._plan.target)):
            places.learn(conn, self._shards, shard)

    def _prepare(self) -> None:
        for conn, shard in ((self._source, self._plan.source), (self._target, self._plan.target)):
            row = conn.execute(sql.TRY_LOCK).fetchone()
            if row is None or not row[0]:
                raise MoveError(f"another move is at work in shard {shard.name}", "wait until it has ended")
        self._learn()
        if self._identity(self._plan.source) == self._identity(self._plan.target):
            raise MoveError(
                "the two databases have one identity, as copies of one database do",
                "in the one without jobs: UPDATE shard_identity SET identity = gen_random_uuid()",
            )
        if any(self._shards.shard_of(p) != self._plan.source for p in self._partitions):
            raise MoveError("the partitions are not in the source any more", _LOOK)

    @property
    def _partitions(self) -> list[int]:
        return list(range(self._plan.first, self._plan.last + 1))

    def _identity(self, shard: Shard) -> uuid.UUID:
        report = self._shards.report_of(shard)
        assert report is not None, "it was asked"
        return report.identity

    def _expect(self) -> None:
        """The target says of the range that it is elsewhere, so that nobody reads the copy before the switch."""
        partitions = self._partitions
        args = {
            "source": self._identity(self._plan.source),
            "partitions": partitions,
            "generations": [self._shards.generation_of(p) for p in partitions],
        }
        with self._target.transaction():
            if len(self._target.execute(sql.EXPECT, args).fetchall()) != len(partitions):
                raise MoveError(
                    "the target says that it has some of these partitions itself",
                    _LOOK,
                )

    @property
    def _args(self) -> dict[str, Any]:
        lease = timedelta(seconds=self._plan.lease)
        return {**self._plan.range, "mover": self._id, "lease": lease}

    def _fence(self, rows: Rows, cut: str) -> None:
        """Everything that happens while the range cannot be written, up to the switch."""
        self._take_lease()
        keeper = Keeper(self._plan.source.direct, self._args, self._plan.lease / 4, self._plan.max_pause)
        keeper.thread.start()
        try:
            raise_fence(self._source, self._plan.first, self._plan.last)
            self._reached("move-fenced")
            copy_rest(rows, cut, GRACE)
            self._reached("move-copied")
            self._switch()
        finally:
            keeper.stop()

    def _take_lease(self) -> None:
        wanted = len(self._partitions)
        with self._source.transaction():
            self._source.execute(sql.BYPASS)
            raised = self._source.execute(sql.RAISE_EPOCHS, self._plan.range).fetchall()
            args = {**self._args, "target": self._identity(self._plan.target)}
            leased = self._source.execute(sql.TAKE_LEASE, args).fetchall()
            if len(leased) != wanted:
                raise MoveError(
                    f"{wanted - len(leased)} of the partitions are being moved by somebody else",
                    f"try again in {self._plan.lease:g} s",
                )
            if len(raised) != wanted:
                raise MoveError("the source lacks rows of `partitions`", "run `tocsin db upgrade`")

    def _switch(self) -> None:
        wanted = len(self._partitions)
        with self._source.transaction():
            self._source.execute(sql.LOCK_LEASE, self._args)
            if len(self._source.execute(sql.SWITCH, self._args).fetchall()) != wanted:
                raise MoveError(
                    f"the copy was not ready within the lease, or within {self._plan.max_pause:g} s",
                    "move a smaller range, or give a longer --max-pause",
                )

    def _give_up(self) -> None:
        """The source goes on at once, not only when the lease ends. After the switch this changes nothing."""
        try:
            self._source.rollback()
            self._source.execute(sql.GIVE_UP_LEASE, self._args)
            drop_fences(self._source)
        except psycopg.Error:
            self._say("the source could not be told; it goes on when the lease ends")


def finish(shards: ShardMap, plan: Plan, source: Connection, target: Connection) -> int:
    """Delete the old rows, once nobody can be reading them, and the fences that refuse nothing any more."""
    places.learn(source, shards, plan.source)
    places.learn(target, shards, plan.target)
    if any(shards.shard_of(p) != plan.target for p in range(plan.first, plan.last + 1)):
        raise MoveError("the partitions are not in the target", _LOOK)
    threading.Event().wait(plan.settle)
    deleted = clean(source, plan.first, plan.last)
    drop_fences(target)
    return deleted


def finish_again(shards: ShardMap, plan: Plan) -> int:
    """After a move that died behind its switch: `plan.source` is a shard with old rows."""
    source, target = open_direct(plan.source), open_direct(plan.target)
    try:
        return finish(shards, plan, source, target)
    finally:
        source.close()
        target.close()
