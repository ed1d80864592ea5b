"""The list of jobs across shards, newest first.

Job IDs sort by creation time, so each shard gives its newest below the cursor by index and the answers are
merged. A page costs one statement a shard. Weakness: a filter that few jobs match reads many rows, because
only the order has an index.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from uuid import UUID

from tocsin.store import transactions
from tocsin.store.jobs import Job, job_of, select_jobs
from tocsin.store.schema import jobs
from tocsin.store.shards import Shard, ShardMap


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; all conditions hold together. `name` may hold `*` for anything."""

    namespace: str
    name: str | None = None
    owner: str | None = None
    paused: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)


def newest(shards: ShardMap, wanted: JobFilter, before: UUID | None, limit: int) -> list[Job]:
    """At most `limit` jobs created before the job `before`. Raises ShardUnavailableError if any shard is."""
    pages = [_page(shard, wanted, before, limit) for shard in shards.shards]
    merged = heapq.merge(*pages, key=lambda job: job.job_id, reverse=True)
    return list(itertools.islice(merged, limit))


def _page(shard: Shard, wanted: JobFilter, before: UUID | None, limit: int) -> list[Job]:
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
    statement = statement.order_by(jobs.c.job_id.desc()).limit(limit)
    return transactions.run(shard, lambda conn: [job_of(row) for row in conn.execute(statement)])


def _pattern(glob: str) -> str:
    for character in ("\\", "%", "_"):
        glob = glob.replace(character, f"\\{character}")
    return glob.replace("*", "%")
