"""Edits of jobs: update, pause, resume, delete. One transaction each, in the order triggers, job, runs.

An edit locks the schedule trigger, then the job row, and looks at the trigger again: when another edit made
or removed it in between, the transaction begins anew (`Moved`), because a trigger locked after the job row
could meet a node that holds the trigger and waits for the job. The version rises with every change, so a
trigger that a node has read before the edit is not fired.

What was due and not yet fired when a schedule is changed, paused or deleted is recorded as a gap: nothing
vanishes. An edit that leaves the nominal times as they are keeps the pending one, due or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from tocsin import schedules
from tocsin.errors import InvalidError, NotFoundError, Problem, StaleVersionError
from tocsin.ids import partition_of
from tocsin.model.job import JobDocument
from tocsin.model.policy import COUNT_LIMIT
from tocsin.model.problems import parse_job
from tocsin.model.status import TriggerKind
from tocsin.store import jobs as store
from tocsin.store.jobs import Job, JobRef
from tocsin.store.run_cancel import cancel_all, lock_run_triggers
from tocsin.store.schema import gaps, jobs, triggers
from tocsin.store.timing import Due, due_at, never_fires, next_due, same_times
from tocsin.store.transactions import Moved, database_now

Expected = Callable[[int], bool]  # whether the caller accepts this version (If-Match)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Locked:
    """A job with its schedule trigger, both locked."""

    job: Job
    trigger: Row[Any] | None
    now: datetime


def lock(conn: Connection, ref: JobRef, expected: Expected | None, *, deleted: bool = False) -> _Locked:
    """Lock trigger and job. Raises NotFoundError, StaleVersionError. Index: triggers_job, jobs_pkey."""
    job_id = ref.job_id or store.get(conn, ref).job_id
    mine = and_(
        triggers.c.partition_id == ref.partition,
        triggers.c.job_id == job_id,
        triggers.c.kind == str(TriggerKind.SCHEDULE),
    )
    held = conn.execute(select(triggers).where(mine).with_for_update()).all()
    by_id = replace(ref, job_id=job_id, name=None)
    if conn.execute(select(jobs.c.version).where(store.matching(by_id)).with_for_update()).first() is None:
        raise NotFoundError(f"there is no {ref}")
    if conn.execute(select(triggers).where(mine)).all() != held:
        raise Moved
    job = store.get(conn, by_id, deleted=deleted)
    if expected is not None and not expected(job.version):
        raise StaleVersionError(job.version)
    return _Locked(job=job, trigger=held[0] if held else None, now=database_now(conn))


def edit(
    conn: Connection,
    ref: JobRef,
    change: Callable[[dict[str, Any]], Any],
    expected: Expected | None = None,
    reason: str | None = None,
) -> Job:
    """Apply `change` to the canonical document, validate the whole, write what differs.

    A document that stays as it is writes nothing and keeps its version. Raises InvalidError.
    """
    held = lock(conn, ref, expected)
    old, new = parse_job(held.job.document), parse_job(change(held.job.document))
    if new.document() == held.job.document:
        return held.job
    if new.name != old.name:
        raise InvalidError(
            [
                Problem(
                    pointer="#/name",
                    code="name_immutable",
                    detail="the name of a job cannot change",
                    fix="create a job of the new name and delete this one",
                )
            ]
        )
    return _write(conn, held, old, new, reason)


def _write(conn: Connection, held: _Locked, old: JobDocument, new: JobDocument, reason: str | None) -> Job:
    job, version = held.job, held.job.version + 1
    due = _next(held, old, new)
    keeps_pause = new.paused and old.paused
    pause_reason = job.pause_reason if keeps_pause else reason if new.paused else None
    spec_id = store.put_spec(conn, new)
    conn.execute(
        update(jobs)
        .where(jobs.c.partition_id == job.partition, jobs.c.job_id == job.job_id)
        .values(
            version=version, updated_at=held.now, spec_id=spec_id, pause_reason=pause_reason,
            **store.columns(new),
        )
    )  # fmt: skip
    if held.trigger is not None:
        if due is None or due.nominal != held.trigger.scheduled_at:
            _record_overdue(conn, held, old)
        _remove_trigger(conn, job)
    if due is not None:
        store.put_schedule_trigger(conn, job.job_id, new, due, version=version, spec_id=spec_id, now=held.now)
    return replace(
        job,
        document=new.document(),
        version=version,
        updated_at=held.now,
        pause_reason=pause_reason,
        next_run_at=due.nominal if due else None,
    )


def _next(held: _Locked, old: JobDocument, new: JobDocument) -> Due | None:
    """The trigger after the edit: the pending nominal time if it still is one, else the first after now."""
    if new.schedule is not None and same_times(old, new):
        if held.trigger is None:
            return None  # the schedule has ended; the edit is about something else
        return due_at(held.job.job_id, new.schedule, held.trigger.scheduled_at)
    changed = new.schedule is not None and new.schedule != old.schedule
    if changed and new.schedule and schedules.next_after(new.schedule, held.now) is None:
        raise never_fires(new.schedule, held.now)
    return next_due(held.job.job_id, new, held.now)


def _remove_trigger(conn: Connection, job: Job) -> None:
    conn.execute(
        delete(triggers).where(
            triggers.c.partition_id == job.partition,
            triggers.c.job_id == job.job_id,
            triggers.c.kind == str(TriggerKind.SCHEDULE),
        )
    )


def _record_overdue(conn: Connection, held: _Locked, doc: JobDocument) -> None:
    """The nominal times that had come and were not fired yet, as a gap."""
    first = held.trigger.scheduled_at if held.trigger is not None else None
    if first is None or first > held.now or doc.schedule is None:
        return
    last = schedules.latest_at_or_before(doc.schedule, held.now, first) or first
    count, capped = schedules.count_between(doc.schedule, first, last, COUNT_LIMIT)
    conn.execute(
        insert(gaps)
        .values(
            partition_id=held.job.partition, job_id=held.job.job_id, first_at=first, last_at=last,
            count=count + 1, at_least=capped, job_version=held.job.version,
        )
        .on_conflict_do_nothing()
    )  # fmt: skip


def set_paused(
    conn: Connection, ref: JobRef, paused: bool, reason: str | None = None, expected: Expected | None = None
) -> Job:
    """Pause or resume; a job that is so already stays untouched, its reason too."""
    return edit(conn, ref, lambda document: {**document, "paused": paused}, expected, reason)


def remove(
    conn: Connection, ref: JobRef, expected: Expected | None = None, *, cancel_runs: bool = False
) -> Job | None:
    """Delete the job: a tombstone stays for its history. None when it was deleted before.

    Its live runs go on, unless `cancel_runs`. Raises NotFoundError when there never was such a job.
    """
    if _tombstone(conn, ref):
        return None
    if cancel_runs:  # their triggers too are locked before the job
        lock_run_triggers(conn, ref.job_id or store.get(conn, ref).job_id)
    held = lock(conn, ref, expected, deleted=True)
    if held.job.deleted_at is not None:
        return None
    _record_overdue(conn, held, parse_job(held.job.document))
    _remove_trigger(conn, held.job)
    conn.execute(
        update(jobs)
        .where(jobs.c.partition_id == partition_of(held.job.job_id), jobs.c.job_id == held.job.job_id)
        .values(deleted_at=held.now, version=held.job.version + 1, updated_at=held.now)
    )
    if cancel_runs:
        cancel_all(conn, held.job.job_id)
    return held.job


def _tombstone(conn: Connection, ref: JobRef) -> bool:
    """Whether a name has only deleted jobs."""
    if ref.name is None:
        return False
    found = conn.execute(
        select(jobs.c.deleted_at).where(
            jobs.c.partition_id == ref.partition,
            jobs.c.namespace == ref.namespace,
            jobs.c.name == ref.name,
        )
    ).all()
    return bool(found) and all(row.deleted_at is not None for row in found)
