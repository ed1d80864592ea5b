"""Cancelling runs, in the order triggers, job (limited runs only), runs.

A run that no worker holds ends at once, together with its trigger; so does one that waits for its target to call
back (`callbacks`). A running one gets a mark that its worker
sees at the next heartbeat, or at once through NOTIFY `tocsin_cancel`. When a limited run gives up a place,
the oldest waiting run of the job gets a trigger in the same transaction.

Weakness: a run whose worker has died stays running until the reaper meets it; the mark waits as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, delete, exists, func, select, update

from tocsin.errors import ConflictError, NotFoundError
from tocsin.ids import RunKey, partition_of
from tocsin.model.status import FINAL, LIVE, Reason, RunStatus, TriggerKind
from tocsin.store.runs import key_of, put_run_trigger
from tocsin.store.schema import jobs, runs, triggers
from tocsin.store.transactions import Moved, database_now

_HELD = (RunStatus.SCHEDULED, RunStatus.WAITING, RunStatus.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What a cancel did: how many runs ended, and how many were asked to."""

    ended: int = 0
    asked: int = 0


def cancel(conn: Connection, key: RunKey, why: str | None = None) -> Cancelled:
    """Cancel one run; `why` stands in the error of one that ends at once.

    Raises NotFoundError, ConflictError `run_final`.
    """
    words = f"cancelled on request: {why}" if why else "cancelled on request"
    done, found = _cancel(conn, key.job_id, key.scheduled_at, Reason.CANCELLED, words)
    if not found:
        raise NotFoundError(f"there is no run {key}")
    if found[0].status in FINAL:
        raise ConflictError(
            f"run {key} is {found[0].status} already",
            code="run_final",
            fix="start it again with POST …/retry if it should run once more",
        )
    return done


def cancel_all(conn: Connection, job_id: UUID) -> Cancelled:
    """Cancel every live run of a job, in the transaction that deletes it; triggers are locked before."""
    done, _ = _cancel(conn, job_id, None, Reason.JOB_DELETED, "the job was deleted")
    return done


def lock_run_triggers(conn: Connection, job_id: UUID, nominal: datetime | None = None) -> Sequence[Row[Any]]:
    """Lock the triggers of kind `run` of this job, or of one run of it. Index: triggers_job."""
    statement = select(triggers).where(_run_triggers(job_id, nominal)).order_by(*triggers.primary_key)
    return conn.execute(statement.with_for_update()).all()


def _run_triggers(job_id: UUID, nominal: datetime | None) -> Any:
    mine = and_(
        triggers.c.partition_id == partition_of(job_id),
        triggers.c.job_id == job_id,
        triggers.c.kind == str(TriggerKind.RUN),
    )
    return mine if nominal is None else and_(mine, triggers.c.scheduled_at == nominal)


def _cancel(
    conn: Connection, job_id: UUID, nominal: datetime | None, reason: Reason, words: str
) -> tuple[Cancelled, Sequence[Any]]:
    held = lock_run_triggers(conn, job_id, nominal)
    chosen = and_(runs.c.partition_id == partition_of(job_id), runs.c.job_id == job_id)
    chosen = and_(
        chosen, runs.c.status.in_(sorted(LIVE)) if nominal is None else runs.c.scheduled_at == nominal
    )
    what = select(runs.c.scheduled_at, runs.c.status, runs.c.limited, runs.c.lease_owner).where(chosen)
    limited = any(row.limited for row in conn.execute(what))
    if limited:
        conn.execute(
            select(jobs.c.version)
            .where(jobs.c.partition_id == partition_of(job_id), jobs.c.job_id == job_id)
            .with_for_update(key_share=True)
        )
    found = conn.execute(what.order_by(runs.c.scheduled_at).with_for_update()).all()
    # A retry that was planned meanwhile has a trigger that is not locked.
    if {_key(row) for row in conn.execute(select(triggers).where(_run_triggers(job_id, nominal)))} != {
        _key(row) for row in held
    }:
        raise Moved
    ending = [row.scheduled_at for row in found if row.status in _HELD or _waits_for_callback(row)]
    running = [
        row.scheduled_at for row in found if row.status == RunStatus.RUNNING and not _waits_for_callback(row)
    ]
    _end(conn, job_id, ending, reason, words)
    _ask(conn, job_id, running)
    if limited and ending and nominal is not None:
        release_next(conn, job_id)
    return Cancelled(ended=len(ending), asked=len(running)), found


def _waits_for_callback(row: Any) -> bool:
    return row.status == RunStatus.RUNNING and str(row.lease_owner).startswith("callback:")


def _key(trigger: Row[Any]) -> tuple[datetime, datetime]:
    return trigger.fire_at, trigger.scheduled_at


def _end(conn: Connection, job_id: UUID, nominals: list[datetime], reason: Reason, words: str) -> None:
    if not nominals:
        return
    conn.execute(
        update(runs)
        .where(
            runs.c.partition_id == partition_of(job_id),
            runs.c.job_id == job_id,
            runs.c.scheduled_at.in_(nominals),
            runs.c.status.in_([*_HELD, RunStatus.RUNNING]),  # all are locked
        )
        .values(
            status=str(RunStatus.CANCELLED),
            reason=str(reason),
            error=words,
            cancel_requested=True,
            finished_at=database_now(conn),
            lease_token=None,
            lease_expires_at=None,
            deadline_at=None,
        )
    )
    conn.execute(delete(triggers).where(_run_triggers(job_id, None), triggers.c.scheduled_at.in_(nominals)))


def _ask(conn: Connection, job_id: UUID, nominals: list[datetime]) -> None:
    if not nominals:
        return
    conn.execute(
        update(runs)
        .where(
            runs.c.partition_id == partition_of(job_id),
            runs.c.job_id == job_id,
            runs.c.scheduled_at.in_(nominals),
            runs.c.status == str(RunStatus.RUNNING),
        )
        .values(cancel_requested=True)
    )
    for nominal in nominals:
        conn.execute(select(func.pg_notify("tocsin_cancel", str(key_of(job_id, nominal)))))


def release_next(conn: Connection, job_id: UUID) -> RunKey | None:
    """Give the oldest waiting run a trigger; the job row is locked. Index: runs_limited of each day.

    One too many is harmless: the node finds no place for it and lets it wait on.
    """
    released = exists().where(_run_triggers(job_id, None), triggers.c.scheduled_at == runs.c.scheduled_at)
    row = conn.execute(
        select(runs.c.scheduled_at, runs.c.job_version)
        .where(
            runs.c.partition_id == partition_of(job_id),
            runs.c.job_id == job_id,
            runs.c.limited,
            runs.c.status == str(RunStatus.WAITING),
            ~released,
        )
        .order_by(runs.c.scheduled_at)
        .limit(1)
    ).first()
    if row is None:
        return None
    put_run_trigger(
        conn,
        job_id,
        row.scheduled_at,
        fire_at=database_now(conn),
        attempt=1,
        job_version=row.job_version,
        limited=True,
    )
    return key_of(job_id, row.scheduled_at)
