"""Partitions: epochs, owners and publish watermarks. The epoch in Postgres is the authority on who may write.

A node that takes a partition raises its epoch. Every transaction of a node first calls `check_epochs`, which
locks the partition rows FOR SHARE: raising an epoch waits for such a transaction, and one that comes after
finds its epoch stale and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from tocsin.clock import from_micros, to_micros
from tocsin.ids import RunKey
from tocsin.model import job as job_model
from tocsin.store.connections import transaction, tuned

Connection = psycopg.Connection[Any]
Owned = Mapping[int, int]  # partition → the epoch this node holds


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that is committed as queued and must now reach the broker."""

    partition: int
    job_id: UUID
    scheduled_us: int
    attempt: int
    tier: str
    task_kind: str
    job_name: str
    pool: str = job_model.DEFAULT_POOL

    @property
    def run_id(self) -> str:
        return f"run_{self.job_id.hex}{self.scheduled_us:014x}"

    @property
    def key(self) -> RunKey:
        return RunKey(self.job_id, self.scheduled_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A partition taken: its new epoch, and the watermark its predecessor left (None: nothing confirmed)."""

    partition: int
    epoch: int
    watermark: datetime | None


# Index: partitions_pkey, shard_moves_pkey. Locked in order, so that two nodes that take overlapping sets do not
# deadlock. One that is moving, or was moved, is not taken.
TAKE = """
WITH mine AS (
    SELECT p.partition_id FROM partitions p
    WHERE p.partition_id = ANY(%s) AND NOT EXISTS (
        SELECT FROM shard_moves m WHERE m.partition_id = p.partition_id
          AND (m.moved_to IS NOT NULL OR m.lease_until > clock_timestamp())
    )
    ORDER BY p.partition_id FOR UPDATE
)
UPDATE partitions p SET epoch = p.epoch + 1, owner = %s, taken_at = clock_timestamp()
FROM mine WHERE p.partition_id = mine.partition_id
RETURNING p.partition_id, p.epoch, NULLIF(p.watermark, '-infinity')
"""

# Index: partitions_pkey; one row lock a partition.
CHECK_EPOCHS = """
SELECT p.partition_id, clock_timestamp()
FROM unnest(%s::int2[], %s::int8[]) AS o (partition_id, epoch)
JOIN partitions p ON p.partition_id = o.partition_id AND p.epoch = o.epoch
ORDER BY p.partition_id FOR SHARE OF p
"""

GIVE_UP = """
UPDATE partitions p SET owner = NULL
FROM unnest(%s::int2[], %s::int8[]) AS o (partition_id, epoch)
WHERE p.partition_id = o.partition_id AND p.epoch = o.epoch
"""

SET_WATERMARKS = """
UPDATE partitions p SET watermark = greatest(p.watermark, o.watermark)
FROM unnest(%s::int2[], %s::int8[], %s::timestamptz[]) AS o (partition_id, epoch, watermark)
WHERE p.partition_id = o.partition_id AND p.epoch = o.epoch
RETURNING p.partition_id
"""

# Index: runs_queued of each day. Cost: only what is queued beyond the watermark.
UNPUBLISHED = """
SELECT r.partition_id, r.job_id, r.scheduled_at, r.attempt, r.tier, r.task_kind, j.name, r.fired_at, j.pool
FROM partitions p
JOIN runs r ON r.partition_id = p.partition_id AND r.status = 'queued' AND r.fired_at > p.watermark
JOIN jobs j ON j.partition_id = r.partition_id AND j.job_id = r.job_id
WHERE p.partition_id = %s AND (r.fired_at, r.job_id, r.scheduled_at) > (%s, %s, %s)
ORDER BY r.fired_at, r.job_id, r.scheduled_at LIMIT %s
"""
# Index: runs_queued of each day, one probe a partition and day.
BEHIND = """
SELECT p.partition_id FROM partitions p
WHERE p.partition_id = ANY(%s) AND EXISTS (
    SELECT FROM runs r
    WHERE r.partition_id = p.partition_id AND r.status = 'queued' AND r.fired_at > p.watermark
)
ORDER BY p.partition_id
"""
_START = (from_micros(0), UUID(int=0), from_micros(0))


def take(conn: Connection, partitions: Sequence[int], node_id: str) -> list[Taken]:
    """Raise the epoch of these partitions in this node's name. Their former owner can write no more.

    Those that are not in this shard, or are being moved to another, are left out.
    """
    with transaction(conn):
        rows = conn.execute(TAKE, (list(partitions), node_id)).fetchall()
    return [Taken(partition=p, epoch=e, watermark=w) for p, e, w in rows]


def check_epochs(conn: Connection, owned: Owned) -> tuple[list[int], datetime | None]:
    """Inside a transaction: the partitions still owned, locked against a takeover, and the database's now."""
    rows = conn.execute(CHECK_EPOCHS, (list(owned), list(owned.values()))).fetchall()
    return [partition for partition, _ in rows], rows[0][1] if rows else None


def give_up(conn: Connection, owned: Owned) -> None:
    """Leave these partitions without an owner; a partition taken by another meanwhile is left alone."""
    conn.execute(GIVE_UP, (list(owned), list(owned.values())))


def set_watermarks(conn: Connection, marks: Mapping[int, tuple[int, datetime]]) -> set[int]:
    """Remember (epoch, instant) up to which all is confirmed; returns the partitions no longer ours."""
    if not marks:
        return set()
    epochs = [epoch for epoch, _ in marks.values()]
    instants = [instant for _, instant in marks.values()]
    rows = conn.execute(SET_WATERMARKS, (list(marks), epochs, instants)).fetchall()
    return set(marks) - {partition for (partition,) in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some queued runs of one partition in the order of `fired_at`; `after` asks for the next page."""

    runs: list[QueuedRun]
    fired_at: datetime | None
    after: tuple[datetime, UUID, datetime] | None


def unpublished(
    conn: Connection, partition: int, after: tuple[datetime, UUID, datetime] | None = None, limit: int = 1000
) -> Page:
    """Queued runs of the partition beyond its watermark, for the node that has just taken it."""
    with tuned(conn):
        rows = conn.execute(UNPUBLISHED, (partition, *(after or _START), limit)).fetchall()
    last = (rows[-1][7], rows[-1][1], rows[-1][2]) if len(rows) == limit else None
    return Page(runs=[queued_run(row) for row in rows], fired_at=rows[-1][7] if rows else None, after=last)


def behind(conn: Connection, partitions: Sequence[int]) -> list[int]:
    """Those of the partitions that have queued runs beyond their watermark."""
    with tuned(conn):
        return [partition for (partition,) in conn.execute(BEHIND, (list(partitions),))]


def queued_run(row: Sequence[Any]) -> QueuedRun:
    """From (partition_id, job_id, scheduled_at, attempt, tier, task_kind, job name, …, pool)."""
    return QueuedRun(
        partition=row[0],
        job_id=row[1],
        scheduled_us=to_micros(row[2]),
        attempt=row[3],
        tier=row[4],
        task_kind=row[5],
        job_name=row[6],
        pool=row[-1],
    )
