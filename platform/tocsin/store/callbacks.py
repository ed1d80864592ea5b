"""Runs that wait for their target to call back.

When a target has answered that it will, its worker hands the attempt over: the lease then lasts until the attempt's
deadline, nobody renews it, and the worker forgets the run. So it holds no slot, costs no heartbeat, and goes on when
its worker ends. `lease_owner` becomes `callback:` and the worker's name.

It ends by the callback (here), by its deadline (the reaper), or by a cancel, which needs no worker. Each is
conditional on the lease as ever, so the first one wins. A callback that comes before the hand-over ends the run as
well; the hand-over then finds no lease.
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection as ApiConnection
from sqlalchemy import and_, select

from tocsin.clock import to_micros
from tocsin.ids import RunKey
from tocsin.model.job import RetryPolicy
from tocsin.model.policy import Failure, decide_retry
from tocsin.model.status import Reason, RunStatus
from tocsin.store import leases
from tocsin.store import leases_sql as sql
from tocsin.store.leases import Connection, Ending, Lease, Output, Result
from tocsin.store.runs import one
from tocsin.store.schema import jobs, runs


async def finish(conn: Connection, results: Sequence[Result]) -> dict[RunKey, RunStatus]:
    """`leases.finish`, with those handed over that wait for a callback; their status is `running`."""
    waiting = [result for result in results if result.ending is Ending.CALLBACK]
    if not waiting:
        return await leases.finish(conn, results)
    handed = await _hand_over(conn, waiting)
    rest = [result for result in results if result.ending is not Ending.CALLBACK]
    rest += [_cancelled(result) for result in waiting if result.lease.key not in handed]
    ended = await leases.finish(conn, rest) if rest else {}
    return {**dict.fromkeys(handed, RunStatus.RUNNING), **ended}


async def _hand_over(conn: Connection, waiting: Sequence[Result]) -> set[RunKey]:
    arguments = leases.lease_arguments([result.lease for result in waiting])
    arguments["http_statuses"] = [result.http_status for result in waiting]
    async with leases.tuned(conn):
        cursor = await conn.execute(sql.HAND_OVER, arguments)
    return {RunKey(job, to_micros(at)) for job, at in await cursor.fetchall()}


def _cancelled(result: Result) -> Result:
    """What becomes of one that could not be handed over. Without its lease this changes nothing."""
    return replace(
        result, ending=Ending.CANCELLED, reason=Reason.CANCELLED, error="cancelled on request", output=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a target says when it calls back. `retry`: a failure is worth another attempt."""

    succeeded: bool
    error: str | None = None
    output: Output | None = None
    retry: bool = True


def complete(conn: ApiConnection, key: RunKey, token: UUID, report: Report) -> bool:
    """End the attempt whose lease has this token; False when there is none: nothing has changed then.

    Lock order jobs (limited runs only), runs; the trigger of a retry is new. Index: runs_pkey.
    """
    row = conn.execute(
        select(
            runs.c.attempt, runs.c.limited, runs.c.lease_token, runs.c.http_status,
            jobs.c.definition["retryPolicy"].label("policy"),
        )
        .join_from(runs, jobs, and_(jobs.c.partition_id == runs.c.partition_id, jobs.c.job_id == runs.c.job_id))
        .where(one(key), runs.c.status == str(RunStatus.RUNNING))
    ).first()  # fmt: skip
    held = row.lease_token.bytes if row is not None and row.lease_token is not None else bytes(16)
    if not hmac.compare_digest(held, token.bytes) or row is None:
        return False
    lease = Lease(key=key, attempt=row.attempt, token=token)
    result = _result(lease, row, report)
    if row.limited:
        conn.exec_driver_sql(sql.LOCK_JOBS, ([key.partition], [key.job_id]))
    ended = conn.exec_driver_sql(sql.FINISH, leases.finish_arguments([result])).all()
    if row.limited and conn.exec_driver_sql(sql.RELEASE, ([key.partition], [key.job_id])).rowcount:
        conn.exec_driver_sql(sql.NOTIFY)
    return [(job, to_micros(at)) for job, at, _ in ended] == [(key.job_id, key.scheduled_us)]


def _result(lease: Lease, row: Any, report: Report) -> Result:
    ending, delay = Ending.SUCCEEDED, timedelta(0)
    if not report.succeeded:
        policy = RetryPolicy.model_validate(row.policy or {})
        failure = Failure(reason=Reason.REPORTED, http_status=row.http_status)
        retry = decide_retry(policy, lease.attempt, failure, random.random()) if report.retry else None
        ending, delay = (Ending.RETRY, retry.delay) if retry else (Ending.FAILED, delay)
    return Result(
        lease=lease,
        limited=row.limited,
        ending=ending,
        reason=None if report.succeeded else Reason.REPORTED,
        error=report.error,
        http_status=row.http_status,
        delay=delay,
        output=report.output,
    )
