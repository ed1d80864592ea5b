"""Jobs: the definition and its schedule trigger, always written in one transaction.

A job never exists without its trigger: `create` inserts both or neither. A name is unique among the jobs of a
namespace that are not deleted; it fixes the job's partition, so the constraint is local to one shard and an
insert of the same name waits for the one before it. Edits are in `job_edits.py`.

Weakness: a name's partition is the same after a delete, so jobs of one name are never spread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, and_, func, select, text
from sqlalchemy.dialects.postgresql import insert

from tocsin.errors import ConflictError, NotFoundError
from tocsin.ids import format_job_id, new_job_id, parse_job_id, partition_of, partition_of_name
from tocsin.model.job import NAME_PATTERN, JobDocument
from tocsin.model.status import TriggerKind
from tocsin.store import specs
from tocsin.store.schema import jobs, triggers
from tocsin.store.timing import HINT, Due, first_due, is_limited
from tocsin.store.transactions import database_now

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """How a request names a job; both ways lead to one partition without a look-up."""

    partition: int
    namespace: str
    job_id: UUID | None = None
    name: str | None = None

    def __str__(self) -> str:
        return f"job {self.name!r}" if self.job_id is None else f"job {format_job_id(self.job_id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is stored; `next_run_at` is the nominal time of its trigger."""

    job_id: UUID
    document: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    pause_reason: str | None
    deleted_at: datetime | None
    next_run_at: datetime | None

    @property
    def name(self) -> str:
        name: str = self.document["name"]
        return name

    @property
    def partition(self) -> int:
        return partition_of(self.job_id)


def parse_ref(text: str, namespace: str) -> JobRef:
    """`job_…` or `name:<name>`. Raises NotFoundError for anything else, for there is no such job."""
    name = text.removeprefix("name:")
    if name != text and re.fullmatch(NAME_PATTERN, name):
        return JobRef(partition=partition_of_name(namespace, name), namespace=namespace, name=name)
    job_id = parse_job_id(text)
    if job_id is None:
        raise NotFoundError(f"{text[:80]!r} is no job ID; give job_… or name:<name>")
    return JobRef(partition=partition_of(job_id), namespace=namespace, job_id=job_id)


def columns(doc: JobDocument) -> dict[str, Any]:
    """The columns that a document decides, the spec apart."""
    return {
        "owner": doc.owner,
        "labels": doc.labels,
        "definition": doc.document(),
        "jitter_us": 0 if doc.schedule is None else doc.schedule.jitter // _MICROSECOND,
        "task_kind": doc.task.kind,
        "tier": str(doc.tier),
        "pool": doc.pool,
        "timeout_us": round(doc.timeout_sec * 1_000_000),
        "overlap": str(doc.concurrency.overlap),
        "max_running": doc.concurrency.max,
        "queue_limit": doc.concurrency.queue_limit,
        "paused": doc.paused,
    }


def create(conn: Connection, doc: JobDocument, namespace: str) -> Job:
    """Write the job and its first trigger. Raises ConflictError `name_taken`, InvalidError (dead schedule).

    Index: jobs_name, jobs_pkey, triggers_pkey. Cost: two inserts, three for the first job of a spec.
    """
    now = database_now(conn)
    job_id = new_job_id(namespace, doc.name, now)
    due = first_due(job_id, doc, now)
    spec_id = put_spec(conn, doc)
    made = conn.execute(
        insert(jobs)
        .values(
            partition_id=partition_of(job_id),
            job_id=job_id,
            namespace=namespace,
            name=doc.name,
            spec_id=spec_id,
            created_at=now,
            updated_at=now,
            **columns(doc),
        )
        .on_conflict_do_nothing(
            index_elements=["partition_id", "namespace", "name"], index_where=text("deleted_at IS NULL")
        )
        .returning(jobs.c.version)
    ).first()
    if made is None:
        raise ConflictError(
            f"a job named {doc.name!r} exists already",
            code="name_taken",
            fix=f"choose another name, or change the job with PATCH /jobs/name:{doc.name}",
        )
    if due is not None:
        put_schedule_trigger(conn, job_id, doc, due, version=1, spec_id=spec_id, now=now)
    return Job(
        job_id=job_id,
        document=doc.document(),
        version=1,
        created_at=now,
        updated_at=now,
        pause_reason=None,
        deleted_at=None,
        next_run_at=due.nominal if due else None,
    )


def put_spec(conn: Connection, doc: JobDocument) -> int | None:
    """The number of the document's spec; None when it has no schedule."""
    return None if doc.schedule is None else specs.put(conn, doc.schedule, doc.catch_up)


def put_schedule_trigger(
    conn: Connection,
    job_id: UUID,
    doc: JobDocument,
    due: Due,
    *,
    version: int,
    spec_id: int | None,
    now: datetime,
) -> None:
    """Insert the job's schedule trigger, and wake the partition's owner when it is due soon."""
    conn.execute(
        insert(triggers).values(
            partition_id=partition_of(job_id),
            fire_at=due.fire_at,
            job_id=job_id,
            scheduled_at=due.nominal,
            kind=str(TriggerKind.SCHEDULE),
            job_version=version,
            spec_id=spec_id,
            jitter_us=columns(doc)["jitter_us"],
            limited=is_limited(doc),
        )
    )
    if due.fire_at - now <= HINT:
        wake(conn, partition_of(job_id))


def wake(conn: Connection, partition: int) -> None:
    """Hint to the partition's owner, at the commit, to look now. Polling finds the trigger without it."""
    conn.execute(select(func.pg_notify("tocsin", str(partition))))


def select_jobs() -> Select[Any]:
    """Jobs with the nominal time of their trigger; the caller adds the conditions."""
    return select(
        jobs.c.job_id, jobs.c.definition, jobs.c.version, jobs.c.created_at, jobs.c.updated_at,
        jobs.c.pause_reason, jobs.c.deleted_at, triggers.c.scheduled_at.label("next_run_at"),
    ).outerjoin(
        triggers,
        and_(
            triggers.c.partition_id == jobs.c.partition_id,
            triggers.c.job_id == jobs.c.job_id,
            triggers.c.kind == str(TriggerKind.SCHEDULE),
        ),
    )  # fmt: skip


def job_of(row: Row[Any]) -> Job:
    """From a row of `select_jobs`."""
    return Job(
        job_id=row.job_id,
        document=row.definition,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        pause_reason=row.pause_reason,
        deleted_at=row.deleted_at,
        next_run_at=row.next_run_at,
    )


def matching(ref: JobRef) -> Any:
    """The condition that selects the job; by name only the one that is not deleted."""
    here = and_(jobs.c.partition_id == ref.partition, jobs.c.namespace == ref.namespace)
    if ref.job_id is not None:
        return and_(here, jobs.c.job_id == ref.job_id)
    return and_(here, jobs.c.name == ref.name, jobs.c.deleted_at.is_(None))


def get(conn: Connection, ref: JobRef, *, deleted: bool = False) -> Job:
    """The job. Raises NotFoundError; a deleted job is found only by its ID and with `deleted`.

    Index: jobs_pkey or jobs_name, triggers_job.
    """
    row = conn.execute(select_jobs().where(matching(ref))).first()
    if row is None:
        raise NotFoundError(f"there is no {ref}")
    if row.deleted_at is not None and not deleted:
        raise NotFoundError(f"{ref} was deleted")
    return job_of(row)
