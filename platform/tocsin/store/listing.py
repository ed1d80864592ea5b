"""The list of jobs across shards, newest first.

Job IDs sort by creation time, so each shard gives its newest below the cursor by index and the answers are
merged; an ID is unique, so jobs of one millisecond have an order, too. A page costs one statement a shard.

A list is never silently short. A shard that cannot be asked fails the whole list, unless the caller takes a
partial one: then it is named. A shard's rows count only for the partitions that it has: each answer comes with the
stamp of the shard's moves, and when that is not the one known here the list begins anew with what is known then.

Weakness: a filter that few jobs match reads many rows, because only the order has an index; shards are asked one
after the other.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tocsin.errors import ShardUnavailableError
from tocsin.store import transactions
from tocsin.store.jobs import Job, job_of, select_jobs
from tocsin.store.places import MovedError
from tocsin.store.schema import jobs
from tocsin.store.shards import Shard, ShardMap

_TRIES = 3
_STAMP = text("SELECT coalesce(sum(generation + 1), 0)::int8 FROM shard_moves")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; all conditions hold together. `name` may hold `*` for anything."""

    namespace: str
    name: str | None = None
    owner: str | None = None
    paused: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A shard whose jobs are not in the list, and why."""

    shard: str
    detail: str


def newest(shards: ShardMap, wanted: JobFilter, before: UUID | None, limit: int) -> list[Job]:
    """At most `limit` jobs created before the job `before`. Raises ShardUnavailableError if any shard is."""
    found, missing = partial(shards, wanted, before, limit)
    if missing:
        raise ShardUnavailableError(missing[0].detail)
    return found


def partial(
    shards: ShardMap, wanted: JobFilter, before: UUID | None, limit: int
) -> tuple[list[Job], list[Missing]]:
    """The same from the shards that answer, and those that do not."""
    for _ in range(_TRIES):
        pages: list[list[Job]] = []
        missing: list[Missing] = []
        try:
            for shard in shards.shards:
                if shards.partitions_of(shard):
                    _collect(shards, shard, wanted, before, limit, pages, missing)
        except _Changed as changed:
            transactions.refresh(shards, changed.shard)
            continue
        if shards.lost:
            missing.append(
                Missing(
                    shard="unknown",
                    detail=f"{len(shards.lost)} partitions were moved to a database that cannot be reached, or that "
                    "TOCSIN_DATABASE_URL does not name",
                )
            )
        merged = heapq.merge(*pages, key=lambda job: job.job_id, reverse=True)
        return list(itertools.islice(merged, limit)), missing
    raise MovedError("partitions are being moved to other shards")


class _Changed(Exception):
    """A shard has other partitions than is known here."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard


def _collect(
    shards: ShardMap,
    shard: Shard,
    wanted: JobFilter,
    before: UUID | None,
    limit: int,
    pages: list[list[Job]],
    missing: list[Missing],
) -> None:
    statement = _statement(wanted, before).limit(limit)
    held = shards.partitions_of(shard)
    report = shards.report_of(shard)
    known = report.stamp if report else 0
    if known:
        statement = statement.where(jobs.c.partition_id.in_(sorted(held)))

    def page(conn: Connection) -> list[Job]:
        if conn.execute(_STAMP).scalar_one() != known:
            raise _Changed(shard)
        return [job_of(row) for row in conn.execute(statement)]

    try:
        pages.append(transactions.run(shard, page))
    except ShardUnavailableError as error:
        missing.append(Missing(shard=shard.name, detail=str(error)))


def _statement(wanted: JobFilter, before: UUID | None) -> Any:
    """Index: jobs_newest, backwards; triggers_job for each row."""
    statement = select_jobs().where(jobs.c.deleted_at.is_(None), jobs.c.namespace == wanted.namespace)
    if before is not None:
        statement = statement.where(jobs.c.job_id < before)
    if wanted.name is not None:
        statement = statement.where(jobs.c.name.like(_pattern(wanted.name), escape="\\"))
    if wanted.owner is not None:
        statement = statement.where(jobs.c.owner == wanted.owner)
    if wanted.paused is not None:
        statement = statement.where(jobs.c.paused.is_(wanted.paused))
    if wanted.labels:
        statement = statement.where(jobs.c.labels.contains(wanted.labels))
    return statement.order_by(jobs.c.job_id.desc())


def _pattern(glob: str) -> str:
    for character in ("\\", "%", "_"):
        glob = glob.replace(character, f"\\{character}")
    return glob.replace("*", "%")
