"""Runs started by hand: a manual run of a job, and a re-run of one that has ended.

Such a run is written as `scheduled` together with a trigger of kind `run` that is due at once; a node sends
it from there like any other, with the job's overlap policy. The job row is locked FOR SHARE, so that a run
is never added to a job that is being deleted.

A run's nominal time is its key. A run without a given one takes the database's clock, moved on by a
microsecond while another run has that instant.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects.postgresql import insert

from tocsin.clock import to_micros
from tocsin.errors import ConflictError, InvalidError, NotFoundError, Problem
from tocsin.ids import RunKey, partition_of, run_id
from tocsin.model.status import FINAL, Overlap, RunOrigin, RunStatus, TriggerKind
from tocsin.store import days
from tocsin.store import jobs as store
from tocsin.store.jobs import JobRef
from tocsin.store.schema import jobs, runs, triggers
from tocsin.store.transactions import database_now

_STEP = timedelta(microseconds=1)
_TRIES = 100
AHEAD = timedelta(days=7)  # a manual run may stand for a nominal time that is still to come, within this


def start(conn: Connection, ref: JobRef, *, nominal: datetime | None = None, retention: timedelta) -> RunKey:
    """A manual run, due at once. Raises ConflictError `run_exists`, InvalidError, NotFoundError."""
    job = _share(conn, ref)
    now = database_now(conn)
    if nominal is None:
        return _insert(conn, job, now, RunOrigin.MANUAL)
    if not now - retention <= nominal <= now + AHEAD:
        raise InvalidError(
            [
                Problem(
                    pointer="#/nominalTime",
                    code="nominal_time_range",
                    detail="the history cannot hold this nominal time",
                    fix=f"give an instant within the last {retention.days} or the next {AHEAD.days} days",
                )
            ]
        )
    made = _put(conn, job, nominal, now, RunOrigin.MANUAL)
    if made is None:
        raise ConflictError(
            f"run {run_id(job.job_id, nominal)} has this nominal time",
            code="run_exists",
            fix=f"read it at /runs/{run_id(job.job_id, nominal)}, or repeat it with POST …/retry",
        )
    return made


def rerun(conn: Connection, key: RunKey) -> RunKey:
    """A new run that repeats one that has ended. Raises ConflictError `run_not_final`, NotFoundError."""
    job = _share(conn, JobRef(partition=key.partition, namespace="", job_id=key.job_id), any_namespace=True)
    status = conn.execute(select(runs.c.status).where(one(key))).scalar_one_or_none()
    if status is None:
        raise NotFoundError(f"there is no run {key}")
    if status not in FINAL:
        raise ConflictError(
            f"run {key} is {status}",
            code="run_not_final",
            fix="wait until it has ended, or cancel it first",
        )
    return _insert(conn, job, database_now(conn), RunOrigin.RERUN, rerun_of=key.scheduled_at)


def one(key: RunKey) -> Any:
    """The condition that selects a run by its key."""
    return and_(
        runs.c.partition_id == key.partition,
        runs.c.job_id == key.job_id,
        runs.c.scheduled_at == key.scheduled_at,
    )


def _share(conn: Connection, ref: JobRef, *, any_namespace: bool = False) -> Any:
    """The job, locked against a delete."""
    condition = (
        and_(jobs.c.partition_id == ref.partition, jobs.c.job_id == ref.job_id)
        if any_namespace
        else store.matching(ref)
    )
    row = conn.execute(
        select(
            jobs.c.job_id, jobs.c.version, jobs.c.tier, jobs.c.task_kind, jobs.c.overlap, jobs.c.deleted_at
        )
        .where(condition)
        .with_for_update(read=True)
    ).first()
    if row is None:
        raise NotFoundError(f"there is no {ref}")
    if row.deleted_at is not None:
        raise NotFoundError(f"{ref} was deleted")
    return row


def _insert(
    conn: Connection, job: Any, now: datetime, origin: RunOrigin, rerun_of: datetime | None = None
) -> RunKey:
    for step in range(_TRIES):
        made = _put(conn, job, now + step * _STEP, now, origin, rerun_of)
        if made is not None:
            return made
    raise ConflictError("too many runs of this job start at this instant", code="run_exists", fix="try again")


def _put(
    conn: Connection,
    job: Any,
    nominal: datetime,
    now: datetime,
    origin: RunOrigin,
    rerun_of: datetime | None = None,
) -> RunKey | None:
    """Run and trigger; None when a run has this nominal time. Index: runs_pkey of the day."""
    days.ensure(conn, [days.day_of(nominal)])
    partition, limited = partition_of(job.job_id), job.overlap != Overlap.ALLOW
    made = conn.execute(
        insert(runs)
        .values(
            partition_id=partition, job_id=job.job_id, scheduled_at=nominal, status=str(RunStatus.SCHEDULED),
            origin=str(origin), attempt=0, job_version=job.version, tier=job.tier, task_kind=job.task_kind,
            limited=limited, created_at=now, rerun_of=rerun_of,
        )
        .on_conflict_do_nothing()
        .returning(runs.c.scheduled_at)
    ).scalar_one_or_none()  # fmt: skip
    if made is None:
        return None
    put_run_trigger(conn, job.job_id, made, fire_at=now, attempt=1, job_version=job.version, limited=limited)
    return key_of(job.job_id, made)


def put_run_trigger(
    conn: Connection,
    job_id: UUID,
    nominal: datetime,
    *,
    fire_at: datetime,
    attempt: int,
    job_version: int,
    limited: bool,
) -> None:
    """A trigger that sends an existing run, and a hint to the partition's owner."""
    conn.execute(
        insert(triggers).values(
            partition_id=partition_of(job_id),
            fire_at=fire_at,
            job_id=job_id,
            scheduled_at=nominal,
            kind=str(TriggerKind.RUN),
            job_version=job_version,
            attempt=attempt,
            limited=limited,
        )
    )
    store.wake(conn, partition_of(job_id))


def key_of(job_id: UUID, nominal: datetime) -> RunKey:
    """The key of a job's run."""
    return RunKey(job_id, to_micros(nominal))
