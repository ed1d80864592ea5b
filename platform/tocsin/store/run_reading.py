"""Reading runs: one with its attempts and output, and a job's history, newest first.

Every statement names the partition and the job, and bounds the nominal time from above, so that it walks the
primary key of one day after the other and stops at the limit. `attempts` holds the attempts that were not the
last word; the last one is made from the run's own row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, select

from tocsin.errors import GoneError, NotFoundError
from tocsin.ids import RunKey, partition_of
from tocsin.model.status import FINAL, RunStatus, TriggerKind
from tocsin.store.runs import key_of, one
from tocsin.store.schema import attempts, jobs, run_outputs, runs, triggers
from tocsin.store.transactions import database_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a run."""

    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    error: str | None
    http_status: int | None
    worker: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it is stored, with what was read beside it."""

    key: RunKey
    job_name: str
    row: Row[Any]
    attempts: list[Attempt]
    jitter: timedelta
    next_attempt_at: datetime | None
    output: Row[Any] | None = None

    @property
    def final(self) -> bool:
        return self.row.status in FINAL


def get(conn: Connection, key: RunKey, namespace: str, retention: timedelta) -> Run:
    """One run with its output. Raises NotFoundError, or GoneError past the retention."""
    row = conn.execute(_select().where(one(key), jobs.c.namespace == namespace)).first()
    if row is None:
        if key.scheduled_at < database_now(conn) - retention:
            raise GoneError(f"runs are kept for {retention.days} days")
        raise NotFoundError(f"there is no run {key}")
    output = conn.execute(
        select(run_outputs)
        .where(
            run_outputs.c.partition_id == key.partition,
            run_outputs.c.job_id == key.job_id,
            run_outputs.c.scheduled_at == key.scheduled_at,
        )
        .order_by(run_outputs.c.attempt.desc())
        .limit(1)
    ).first()
    return _assemble(conn, [row], output)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of a job; instants are nominal times, `start` included, `before` not."""

    statuses: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    start: datetime | None = None
    before: datetime | None = None


def history(conn: Connection, job_id: UUID, wanted: RunFilter, limit: int) -> list[Run]:
    """At most `limit` runs of a job, newest nominal time first. Index: runs_pkey of each day, backwards.

    Cost: what is read until `limit` rows match; a rare status reads the job's whole history.
    """
    statement = _select().where(runs.c.partition_id == partition_of(job_id), runs.c.job_id == job_id)
    if wanted.statuses:
        statement = statement.where(runs.c.status.in_(wanted.statuses))
    if wanted.origins:
        statement = statement.where(runs.c.origin.in_(wanted.origins))
    if wanted.start is not None:
        statement = statement.where(runs.c.scheduled_at >= wanted.start)
    if wanted.before is not None:
        statement = statement.where(runs.c.scheduled_at < wanted.before)
    return _assemble(conn, conn.execute(statement.order_by(runs.c.scheduled_at.desc()).limit(limit)).all())


def _select() -> Any:
    return select(runs, jobs.c.name.label("job_name"), jobs.c.jitter_us).join(
        jobs, and_(jobs.c.partition_id == runs.c.partition_id, jobs.c.job_id == runs.c.job_id)
    )


def _assemble(conn: Connection, rows: Sequence[Row[Any]], output: Row[Any] | None = None) -> list[Run]:
    """Runs of one job with their attempts and pending triggers, in two more statements."""
    if not rows:
        return []
    job_id, nominals = rows[0].job_id, [row.scheduled_at for row in rows]
    past: dict[datetime, list[Attempt]] = defaultdict(list)
    for row in conn.execute(
        select(attempts)
        .where(
            attempts.c.partition_id == partition_of(job_id),
            attempts.c.job_id == job_id,
            attempts.c.scheduled_at.in_(nominals),
        )
        .order_by(attempts.c.scheduled_at, attempts.c.attempt)
    ):
        past[row.scheduled_at].append(_attempt(row, row.started_at))
    due = _due(conn, job_id, [row.scheduled_at for row in rows if row.status == RunStatus.SCHEDULED])
    return [
        Run(
            key=key_of(job_id, row.scheduled_at),
            job_name=row.job_name,
            row=row,
            attempts=past[row.scheduled_at] + _last(row, past[row.scheduled_at]),
            jitter=timedelta(microseconds=row.jitter_us if row.origin == "schedule" else 0),
            next_attempt_at=due.get(row.scheduled_at),
            output=output,
        )
        for row in rows
    ]


def _due(conn: Connection, job_id: UUID, nominals: list[datetime]) -> dict[datetime, datetime]:
    if not nominals:
        return {}
    found = conn.execute(
        select(triggers.c.scheduled_at, triggers.c.fire_at).where(
            triggers.c.partition_id == partition_of(job_id),
            triggers.c.job_id == job_id,
            triggers.c.kind == str(TriggerKind.RUN),
            triggers.c.scheduled_at.in_(nominals),
        )
    )
    return {row.scheduled_at: row.fire_at for row in found}


def _last(row: Row[Any], past: list[Attempt]) -> list[Attempt]:
    """The attempt in the run's own row, unless it has begun no attempt that is not recorded."""
    recorded = bool(past) and past[-1].attempt >= row.attempt
    if row.attempt < 1 or row.attempt_started_at is None or recorded or row.status == RunStatus.QUEUED:
        return []
    return [_attempt(row, row.attempt_started_at)]


def _attempt(row: Row[Any], started_at: datetime | None) -> Attempt:
    return Attempt(
        attempt=row.attempt,
        started_at=started_at,
        finished_at=row.finished_at,
        reason=row.reason,
        error=row.error,
        http_status=row.http_status,
        worker=row.lease_owner,
    )
