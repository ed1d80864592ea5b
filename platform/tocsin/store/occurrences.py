"""What became of a job's nominal times, and what will: the answer to "why did it (not) run".

The past is read, not computed: a run with its outcome, or a gap that the catch-up policy or an edit left.
From the pending trigger on, nominal times are computed: `pending` when due but not fired, else `predicted`.
A nominal time before the job or its present schedule existed has no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from tocsin import schedules
from tocsin.ids import run_id
from tocsin.model.problems import parse_job
from tocsin.store.jobs import Job
from tocsin.store.schema import gaps, runs
from tocsin.store.transactions import database_now

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One nominal time, or a gap of several from `nominal` to `last`."""

    nominal: datetime
    outcome: str  # run, gap, pending, predicted
    run_id: str | None = None
    status: str | None = None
    reason: str | None = None
    last: datetime | None = None
    count: int | None = None
    at_least: bool | None = None


def between(
    conn: Connection, job: Job, start: datetime, end: datetime, limit: int
) -> tuple[list[Occurrence], bool]:
    """The occurrences in [start, end] in the order of time, at most `limit`; True when there are more."""
    found = [
        *_runs(conn, job, start, end, limit + 1),
        *_gaps(conn, job, start, end, limit + 1),
        *_coming(job, start, end, limit + 1, database_now(conn)),
    ]
    found.sort(key=lambda occurrence: occurrence.nominal)
    return found[:limit], len(found) > limit


def _runs(conn: Connection, job: Job, start: datetime, end: datetime, limit: int) -> list[Occurrence]:
    """Index: runs_pkey of the days between."""
    rows = conn.execute(
        select(runs.c.scheduled_at, runs.c.status, runs.c.reason)
        .where(
            runs.c.partition_id == job.partition,
            runs.c.job_id == job.job_id,
            runs.c.scheduled_at >= start,
            runs.c.scheduled_at <= end,
        )
        .order_by(runs.c.scheduled_at)
        .limit(limit)
    )
    return [
        Occurrence(
            nominal=row.scheduled_at,
            outcome="run",
            run_id=run_id(job.job_id, row.scheduled_at),
            status=row.status,
            reason=row.reason,
        )
        for row in rows
    ]


def _gaps(conn: Connection, job: Job, start: datetime, end: datetime, limit: int) -> list[Occurrence]:
    """Index: gaps_pkey; reads all gaps of the job up to `end`."""
    rows = conn.execute(
        select(gaps)
        .where(
            gaps.c.partition_id == job.partition,
            gaps.c.job_id == job.job_id,
            gaps.c.first_at <= end,
            gaps.c.last_at >= start,
        )
        .order_by(gaps.c.first_at)
        .limit(limit)
    )
    return [
        Occurrence(
            nominal=row.first_at,
            outcome="gap",
            reason="missed",
            last=row.last_at,
            count=row._mapping["count"],
            at_least=row.at_least,
        )
        for row in rows
    ]


def _coming(job: Job, start: datetime, end: datetime, limit: int, now: datetime) -> list[Occurrence]:
    schedule = parse_job(job.document).schedule
    if schedule is None or job.next_run_at is None:
        return []
    times: list[Occurrence] = []
    at: datetime | None = max(job.next_run_at, start) - _MICROSECOND
    while at is not None and len(times) < limit:
        at = schedules.next_after(schedule, at)
        if at is None or at > end:
            break
        times.append(Occurrence(nominal=at, outcome="pending" if at <= now else "predicted"))
    return times
