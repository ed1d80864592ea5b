"""Runs that wait for their target: handed over under their lease, ended once, by whoever is first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from tasks.table import Table
from tocsin.callback_token import callback_token, lease_token, new_secret, read_callback_token
from tocsin.ids import RunKey
from tocsin.model.status import RunStatus
from tocsin.store import callbacks, leases, reaping, run_cancel
from tocsin.store.callbacks import Report
from tocsin.store.leases import Claimed, Connection, Ending, Lease, Output, Result
from tocsin.store.shards import connect

LEASE = timedelta(seconds=30)
DONE, FAILED = Report(succeeded=True), Report(succeeded=False, error="no more disk")
Call = Callable[[Callable[[Connection], Awaitable[Any]]], Any]


@pytest.fixture
def call(database_url: str) -> Call:
    """Runs a coroutine with a worker's connection."""

    def run(work: Callable[[Connection], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with await leases.connect(database_url) as conn:
                return await work(conn)

        return asyncio.run(main())

    return run


@pytest.fixture
def engine(database_url: str) -> Any:
    """The API's side."""
    made = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    yield made
    made.dispose()


def take(call: Call, key: RunKey, attempt: int = 1) -> tuple[Claimed, bytes]:
    """Claim as a worker does, with a lease whose token is made from a secret."""
    secret = new_secret()
    lease = Lease(key=key, attempt=attempt, token=lease_token(secret))
    return call(lambda conn: leases.claim(conn, [lease], owner="w", lease=LEASE))[key], secret


def hand_over(call: Call, *claimed: Claimed) -> dict[RunKey, RunStatus]:
    results = [
        Result(lease=one.lease, limited=one.limited, ending=Ending.CALLBACK, http_status=202)
        for one in claimed
    ]
    return call(lambda conn: callbacks.finish(conn, results))


def complete(engine: Engine, key: RunKey, secret: bytes, report: Report = DONE) -> bool:
    with engine.begin() as conn:
        return callbacks.complete(conn, key, lease_token(secret), report)


def waiting(call: Call, table: Table, **job: Any) -> tuple[Claimed, bytes]:
    """A run whose target has answered that it will call back."""
    claimed, secret = take(call, table.run(table.job(**job)))
    assert hand_over(call, claimed) == {claimed.lease.key: RunStatus.RUNNING}
    return claimed, secret


def test_a_token_leads_back_to_its_lease_and_to_no_other() -> None:
    secret = new_secret()
    token = callback_token(secret)
    assert len(token) == 43
    assert read_callback_token(token) == lease_token(secret) != lease_token(new_secret())
    for nonsense in (
        None,
        "",
        "x",
        token[:-1],
        token + "A",
        token * 3,
        "ü" * 43,
        token.replace(token[0], "*"),
        str(lease_token(secret)),
    ):
        assert read_callback_token(nonsense) is None


def test_the_lease_of_one_handed_over_lasts_until_its_deadline(call: Call, table: Table) -> None:
    claimed, _ = waiting(call, table, timeoutSec=3600)
    key = claimed.lease.key
    state = "status, lease_owner, lease_expires_at = deadline_at, http_status, lease_token"
    expected = ("running", "callback:w", True, 202, claimed.lease.token)
    assert table.read(key, state) == expected
    # A heartbeat that was on its way, and a hand-over that is repeated, change nothing.
    assert call(lambda conn: leases.heartbeat(conn, [claimed.lease], lease=LEASE)) == {}
    assert hand_over(call, claimed) == {key: RunStatus.RUNNING}
    assert table.read(key, state) == expected


def test_one_that_is_to_be_cancelled_or_lost_its_lease_is_not_handed_over(call: Call, table: Table) -> None:
    keep, _ = take(call, table.run(table.job()))
    cancel, _ = take(call, table.run(table.job()))
    lost, _ = take(call, table.run(table.job()))
    table.conn.execute(
        "UPDATE runs SET cancel_requested = true WHERE job_id = %s", (cancel.lease.key.job_id,)
    )
    table.conn.execute(
        "UPDATE runs SET lease_token = gen_random_uuid() WHERE job_id = %s", (lost.lease.key.job_id,)
    )
    assert hand_over(call, keep, cancel, lost) == {
        keep.lease.key: RunStatus.RUNNING,
        cancel.lease.key: RunStatus.CANCELLED,
    }
    assert table.read(lost.lease.key, "status, lease_owner") == ("running", "w")


def test_a_callback_ends_the_run_once(call: Call, table: Table, engine: Engine) -> None:
    claimed, secret = waiting(call, table)
    key = claimed.lease.key
    output = Output(content=b"42", content_type="text/plain", size=2, truncated=False)
    assert complete(engine, key, secret, Report(succeeded=True, output=output))
    state = "status, attempt, reason, error, http_status, lease_token, finished_at IS NOT NULL"
    assert table.read(key, state) == ("succeeded", 1, None, None, 202, None, True)
    assert table.outputs(key) == [(1, b"42", 2, False)]
    assert not complete(engine, key, secret, FAILED)
    assert table.read(key) == "succeeded"


def test_a_token_fits_its_own_run_only(call: Call, table: Table, engine: Engine) -> None:
    one, secret = waiting(call, table)
    other, others = waiting(call, table)
    queued = table.run(table.job())
    absent = RunKey(one.lease.key.job_id, one.lease.key.scheduled_us + 1)
    for key, token in (
        (one.lease.key, others),
        (other.lease.key, secret),
        (queued, secret),
        (absent, secret),
        (one.lease.key, b""),
    ):
        assert not complete(engine, key, token)
    assert [table.read(key) for key in (one.lease.key, other.lease.key, queued)] == [
        "running",
        "running",
        "queued",
    ]


def test_a_failure_follows_the_retry_policy(call: Call, table: Table, engine: Engine) -> None:
    policy = {"maxAttempts": 2, "initial": "40s", "jitter": "none"}
    claimed, secret = waiting(call, table, retryPolicy=policy)
    key = claimed.lease.key
    assert complete(engine, key, secret, FAILED)
    assert table.read(key, "status, reason, error") == ("scheduled", "reported", "no more disk")
    assert table.attempts(key, "attempt, reason, error, http_status, lease_owner") == [
        (1, "reported", "no more disk", 202, "callback:w")
    ]
    (delay,) = table.conn.execute("SELECT fire_at - clock_timestamp() FROM triggers").fetchone()
    assert timedelta(seconds=35) < delay <= timedelta(seconds=40)
    table.send_due([key])
    again, second = take(call, key, 2)
    assert not complete(engine, key, secret)  # the token of the first attempt
    hand_over(call, again)
    assert complete(engine, key, second, FAILED)
    assert table.read(key, "status, attempt, reason") == ("failed", 2, "reported")


def test_a_failure_that_says_so_is_not_tried_again(call: Call, table: Table, engine: Engine) -> None:
    claimed, secret = waiting(call, table, retryPolicy={"maxAttempts": 5})
    assert complete(engine, claimed.lease.key, secret, Report(succeeded=False, retry=False))
    assert (table.read(claimed.lease.key), table.triggers(claimed.lease.key)) == ("failed", [])


def test_a_failure_of_a_run_that_is_to_be_cancelled_is_its_end(
    call: Call, table: Table, engine: Engine
) -> None:
    claimed, secret = take(call, table.run(table.job()))
    table.conn.execute("UPDATE runs SET cancel_requested = true")
    assert complete(engine, claimed.lease.key, secret, FAILED)
    assert table.read(claimed.lease.key) == "cancelled"


def test_a_callback_may_come_before_the_answer(call: Call, table: Table, engine: Engine) -> None:
    claimed, secret = take(call, table.run(table.job()))
    assert complete(engine, claimed.lease.key, secret)
    assert hand_over(call, claimed) == {}
    assert table.read(claimed.lease.key, "status, lease_owner") == ("succeeded", "w")


def test_of_many_callbacks_at_once_one_counts(call: Call, table: Table, engine: Engine) -> None:
    claimed, secret = waiting(call, table)
    reports = [Report(succeeded=bool(n % 2), error=f"number {n}", retry=False) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda report: complete(engine, claimed.lease.key, secret, report), reports))
    assert won.count(True) == 1
    winner = reports[won.index(True)]
    expected = "succeeded" if winner.succeeded else "failed"
    assert table.read(claimed.lease.key, "status, error") == (expected, winner.error)


@pytest.mark.parametrize("report", [DONE, Report(succeeded=False, retry=False)])
def test_the_end_lets_the_next_run_of_the_job_go(
    call: Call, table: Table, engine: Engine, report: Report
) -> None:
    job = table.job(concurrency={"overlap": "queue", "max": 1})
    claimed, secret = take(call, table.run(job, back=10))
    hand_over(call, claimed)
    next_one = table.run(job, status="waiting")
    assert table.triggers(next_one) == []
    assert complete(engine, claimed.lease.key, secret, report)
    assert table.triggers(next_one) == [("run", 1, True)]


def test_a_cancel_ends_one_that_waits_at_once(call: Call, table: Table, engine: Engine) -> None:
    job = table.job(concurrency={"overlap": "queue", "max": 1})
    claimed, secret = take(call, table.run(job, back=10))
    hand_over(call, claimed)
    next_one = table.run(job, status="waiting")
    with engine.begin() as conn:
        assert run_cancel.cancel(conn, claimed.lease.key) == run_cancel.Cancelled(ended=1, asked=0)
    state = "status, reason, lease_token, lease_expires_at, deadline_at"
    assert table.read(claimed.lease.key, state) == ("cancelled", "cancelled", None, None, None)
    assert table.triggers(next_one) == [("run", 1, True)]
    assert not complete(engine, claimed.lease.key, secret)
    assert table.read(claimed.lease.key) == "cancelled"


def test_a_target_that_never_calls_back_is_timed_out(
    call: Call, table: Table, engine: Engine, database_url: str
) -> None:
    claimed, secret = waiting(call, table, retryPolicy={"maxAttempts": 2})
    key = claimed.lease.key
    table.conn.execute(
        "UPDATE runs SET deadline_at = clock_timestamp(), lease_expires_at = clock_timestamp()"
    )
    table.conn.execute("UPDATE partitions SET epoch = 1, owner = 'n'")
    with connect(database_url) as conn:
        done = reaping.reap(conn, {key.partition: 1})
    assert [run.key for run in done.runs] == [key]
    assert table.attempts(key, "attempt, reason, error") == [
        (1, "timeout", "the target did not call back within the timeout")
    ]
    assert table.read(key, "status, attempt") == ("queued", 2)
    assert not complete(engine, key, secret)
    _, second = take(call, key, 2)
    assert not complete(engine, key, secret)
    assert complete(engine, key, second)


def test_no_table_holds_the_token(call: Call, table: Table, engine: Engine) -> None:
    claimed, secret = waiting(call, table)
    texts = [callback_token(secret), secret.hex()]
    names = [
        name
        for (name,) in table.conn.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND NOT relispartition"
        ).fetchall()
    ]

    def dump() -> str:
        return "".join(str(table.conn.execute(f"SELECT t::text FROM {name} t").fetchall()) for name in names)

    before = dump()
    assert complete(engine, claimed.lease.key, secret, FAILED)
    for text in texts:
        assert text not in before + dump()
    assert str(claimed.lease.token) in before
