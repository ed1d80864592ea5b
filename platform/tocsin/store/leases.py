"""Leases: what a worker writes. Claim a run, renew its lease, end its attempt; each in batches.

Every write is conditional on (run, attempt, lease token, status). A run that a function does not return was not
written: another worker has the claim, or the lease is gone and the result with it.

A batch of runs without overlap policy is one statement in autocommit. When limited runs are among the ended
ones, one transaction locks their jobs, ends the runs, and gives the oldest waiting runs their triggers.
Weakness: after a break between commit and answer, a repeated `finish` reports what it wrote as lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import psycopg

from tocsin.clock import to_micros
from tocsin.ids import RunKey
from tocsin.model.status import Reason, RunStatus
from tocsin.store import leases_sql as sql
from tocsin.store.connections import TCP, UTC_SQL, libpq_url, settings_sql

# Keys come as arrays, which the planner may take for large ones: nested loops are always right.
_SESSION = {
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


class Connection(psycopg.AsyncConnection[Any]):
    """An autocommit connection that knows what to set at the begin of each transaction (see `connections`)."""

    local: str = ""
    pooled: bool = False  # whether a pooler stands in between


# How long after its deadline an attempt may still report that it ran into its timeout.
DEADLINE_GRACE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to execute one attempt of one run. The token is made by the worker, new for each message."""

    key: RunKey
    attempt: int
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An attempt that is ours now, with all that is needed to execute it."""

    lease: Lease
    job_name: str
    task: dict[str, Any]
    retry_policy: dict[str, Any]
    timeout: float  # seconds
    limited: bool
    cancel_requested: bool
    lateness: float  # seconds from the nominal time to the start of the first attempt
    owner: str = ""  # the job's team
    time_zone: str | None = None  # the schedule's


class Ending(StrEnum):
    """How an attempt ends. A retry asked for a run that is to be cancelled is written as cancelled."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETRY = "retry"
    RESUME = "resume"  # the same attempt goes on at another worker; its reason is `handed_over`
    CALLBACK = "callback"  # it goes on until its target calls back; see `callbacks`


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the task said; `size` is the number of bytes seen, more than kept when `truncated`."""

    content: bytes
    content_type: str | None
    size: int
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of one attempt. `delay` is the time until the retry, when it is one."""

    lease: Lease
    limited: bool
    ending: Ending
    reason: Reason | None = None
    error: str | None = None
    http_status: int | None = None
    delay: timedelta = timedelta(0)
    output: Output | None = None


async def connect(url: str) -> Connection:
    """An autocommit connection for these statements. It waits five seconds for a lock at most."""
    conn = await Connection.connect(
        libpq_url(url), autocommit=True, prepare_threshold=None, application_name="tocsin worker", **TCP
    )
    try:
        await conn.execute(UTC_SQL)
        row = await (await conn.execute("SELECT pg_backend_pid()")).fetchone()
        conn.pooled = row is not None and row[0] != conn.info.backend_pid
        if conn.pooled:
            conn.local = settings_sql(_SESSION, local=True)
        else:
            await conn.execute(settings_sql(_SESSION, local=False).encode())
    except BaseException:
        await conn.close()
        raise
    return conn


@asynccontextmanager
async def _transaction(conn: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """A transaction in which the session's settings hold."""
    async with conn.transaction():
        local = getattr(conn, "local", "")
        if local:
            await conn.execute(local.encode())
        yield


@asynccontextmanager
async def tuned(conn: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """For single statements: a transaction only where the session's settings need one."""
    if getattr(conn, "local", ""):
        async with _transaction(conn):
            yield
    else:
        yield


async def claim(
    conn: Connection, asked: Sequence[Lease], *, owner: str, lease: timedelta
) -> dict[RunKey, Claimed]:
    """Take these attempts where the run is queued at that attempt. A run's key may be in `asked` once."""
    async with tuned(conn):
        cursor = await conn.execute(sql.CLAIM, {**lease_arguments(asked), "owner": owner, "lease": lease})
    taken = {}
    for row in await cursor.fetchall():
        key = RunKey(row[0], to_micros(row[1]))
        taken[key] = Claimed(
            lease=Lease(key=key, attempt=row[2], token=row[3]),
            job_name=row[4],
            task=row[5],
            retry_policy=row[6],
            timeout=row[7] / 1e6,
            limited=row[8],
            cancel_requested=row[9],
            lateness=(row[10] - row[1]).total_seconds(),
            owner=row[11],
            time_zone=row[12],
        )
    return taken


async def heartbeat(conn: Connection, held: Sequence[Lease], *, lease: timedelta) -> dict[RunKey, bool]:
    """Renew these leases; for each one still held, whether somebody asked to cancel the run."""
    async with tuned(conn):
        cursor = await conn.execute(
            sql.HEARTBEAT, {**lease_arguments(held), "lease": lease, "grace": DEADLINE_GRACE}
        )
    return {RunKey(job, to_micros(at)): cancel for job, at, cancel in await cursor.fetchall()}


async def finish(conn: Connection, results: Sequence[Result]) -> dict[RunKey, RunStatus]:
    """End these attempts where the lease is still held; the status that each run has now."""
    limited = [r.lease.key for r in results if r.limited]
    if not limited:
        async with tuned(conn):
            return await _finish(conn, results)
    async with _transaction(conn):
        jobs = ([key.partition for key in limited], [key.job_id for key in limited])
        await conn.execute(sql.LOCK_JOBS, jobs)
        ended = await _finish(conn, results)
        # A statement of its own: its snapshot is younger than the locks and sees what has just ended.
        released = await conn.execute(sql.RELEASE, jobs)
        if released.rowcount:
            await conn.execute(sql.NOTIFY)
    return ended


async def register(
    conn: Connection, worker: str, *, tiers: Sequence[str], slots: int, running: int, lease: timedelta
) -> None:
    """Say that this worker is there, for as long as `lease`."""
    row = {"worker": worker, "tiers": list(tiers), "slots": slots, "running": running, "lease": lease}
    await conn.execute(sql.REGISTER, row)


async def unregister(conn: Connection, worker: str) -> None:
    """Say that this worker is gone."""
    await conn.execute(sql.UNREGISTER, (worker,))


async def _finish(conn: Connection, results: Sequence[Result]) -> dict[RunKey, RunStatus]:
    cursor = await conn.execute(sql.FINISH, finish_arguments(results))
    return {RunKey(job, to_micros(at)): RunStatus(status) for job, at, status in await cursor.fetchall()}


def finish_arguments(results: Sequence[Result]) -> dict[str, Any]:
    """The arguments of the statement FINISH."""
    outputs = [(n, r.output) for n, r in enumerate(results, start=1) if r.output is not None]
    return {
        **lease_arguments([r.lease for r in results]),
        "endings": [r.ending.value for r in results],
        "reasons": [r.reason and r.reason.value for r in results],
        "errors": [_text(r.error) for r in results],
        "http_statuses": [r.http_status for r in results],
        "delays": [r.delay for r in results],
        "out_n": [n for n, _ in outputs],
        "out_types": [_text(o.content_type) for _, o in outputs],
        "out_sizes": [o.size for _, o in outputs],
        "out_cut": [o.truncated for _, o in outputs],
        "out_content": [o.content for _, o in outputs],
    }


def lease_arguments(leases: Sequence[Lease]) -> dict[str, Any]:
    """The arguments that name leases in every statement here."""
    nominals: list[datetime] = [lease.key.scheduled_at for lease in leases]
    return {
        "partitions": [lease.key.partition for lease in leases],
        "jobs": [lease.key.job_id for lease in leases],
        "nominals": nominals,
        "attempts": [lease.attempt for lease in leases],
        "tokens": [lease.token for lease in leases],
        "low": min(nominals),
        "high": max(nominals),
    }


def _text(text: str | None) -> str | None:
    """Text that Postgres stores: it has no NUL."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}") if text else text
