"""The statements of a lease: who wins, who has lost, and what a finish leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tasks.table import Table
from tocsin.ids import RunKey
from tocsin.model.status import Reason, RunStatus
from tocsin.store import leases
from tocsin.store.leases import Claimed, Connection, Ending, Lease, Output, Result

LEASE = timedelta(seconds=30)
Call = Callable[[Callable[[Connection], Awaitable[Any]]], Any]


@pytest.fixture
def call(database_url: str) -> Call:
    """Runs a coroutine with a connection of its own."""

    def run(work: Callable[[Connection], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with await leases.connect(database_url) as conn:
                return await work(conn)

        return asyncio.run(main())

    return run


def ask(key: RunKey, attempt: int = 1) -> Lease:
    return Lease(key=key, attempt=attempt, token=uuid4())


def take(call: Call, *wanted: Lease, owner: str = "w") -> dict[RunKey, Claimed]:
    return call(lambda conn: leases.claim(conn, wanted, owner=owner, lease=LEASE))


def ends(claimed: Claimed, ending: Ending, **more: Any) -> Result:
    return Result(lease=claimed.lease, limited=claimed.limited, ending=ending, **more)


def end(call: Call, *results: Result) -> dict[RunKey, RunStatus]:
    return call(lambda conn: leases.finish(conn, results))


def claim_one(call: Call, table: Table, **job: Any) -> Claimed:
    key = table.run(table.job(**job))
    return take(call, ask(key))[key]


def test_a_claim_takes_the_run_and_brings_what_it_needs(call: Call, table: Table) -> None:
    schedule = {"cron": "0 2 * * *", "timeZone": "Asia/Tokyo"}
    job = table.job("http://t/", timeoutSec=7, retryPolicy={"maxAttempts": 5}, schedule=schedule)
    key = table.run(job, back=3)
    claimed = take(call, ask(key), owner="me")[key]
    assert claimed.task["http"]["url"] == "http://t/"
    assert claimed.retry_policy["maxAttempts"] == 5
    assert (claimed.timeout, claimed.limited, claimed.cancel_requested) == (7.0, False, False)
    assert 3 <= claimed.lateness < 10
    assert claimed.time_zone == "Asia/Tokyo"
    status, owner, token, lease, timeout, first = table.read(
        key,
        "status, lease_owner, lease_token, lease_expires_at - attempt_started_at,"
        " deadline_at - attempt_started_at, started_at = attempt_started_at",
    )
    assert (status, owner, token, lease) == ("running", "me", claimed.lease.token, LEASE)
    assert (timeout, first) == (timedelta(seconds=7), True)


def test_the_first_start_stays_over_a_retry(call: Call, table: Table) -> None:
    claimed = claim_one(call, table)
    end(call, ends(claimed, Ending.RETRY, reason=Reason.TIMEOUT))
    table.send_due([claimed.lease.key])
    take(call, ask(claimed.lease.key, 2))
    assert table.read(claimed.lease.key, "attempt, started_at < attempt_started_at") == (2, True)


def test_an_attempt_in_progress_does_not_show_the_failure_before_it(call: Call, table: Table) -> None:
    claimed = claim_one(call, table)
    end(call, ends(claimed, Ending.RETRY, reason=Reason.HTTP_STATUS, error="no", http_status=500))
    assert table.read(claimed.lease.key, "reason, error, http_status") == ("http_status", "no", 500)
    table.send_due([claimed.lease.key])
    take(call, ask(claimed.lease.key, 2))
    assert table.read(claimed.lease.key, "reason, error, http_status") == (None, None, None)
    assert table.attempts(claimed.lease.key) == [(1, "http_status")]


@pytest.mark.parametrize("status", ["scheduled", "waiting", "running", "succeeded", "cancelled"])
def test_only_a_queued_run_can_be_claimed(call: Call, table: Table, status: str) -> None:
    key = table.run(table.job(), status=status)
    assert take(call, ask(key)) == {}
    assert table.read(key) == status


@pytest.mark.parametrize("attempt", [1, 3])
def test_only_the_attempt_of_the_message_can_be_claimed(call: Call, table: Table, attempt: int) -> None:
    key = table.run(table.job(), attempt=2)
    assert take(call, ask(key, attempt)) == {}


def test_a_claim_that_was_not_heard_of_can_be_repeated_with_its_token(call: Call, table: Table) -> None:
    key = table.run(table.job())
    lease = ask(key)
    assert take(call, lease)
    assert take(call, lease)
    assert take(call, ask(key)) == {}


def test_one_of_many_claimers_wins_each_run(call: Call, table: Table, database_url: str) -> None:
    job = table.job()
    keys = [table.run(job, back=n) for n in range(40)]

    async def race(n: int) -> dict[RunKey, Claimed]:
        async with await leases.connect(database_url) as conn:
            wanted = [ask(key) for key in (keys if n % 2 else reversed(keys))]  # both orders: no deadlock
            return await leases.claim(conn, wanted, owner=f"w{n}", lease=LEASE)

    async def main() -> list[dict[RunKey, Claimed]]:
        return await asyncio.gather(*(race(n) for n in range(8)))

    won = [claimed for taken in asyncio.run(main()) for claimed in taken.values()]
    assert sorted(claimed.lease.key for claimed in won) == sorted(keys)
    for claimed in won:
        assert table.read(claimed.lease.key, "lease_token") == claimed.lease.token


def test_claimers_with_the_same_messages_in_other_orders_do_not_deadlock(
    call: Call, table: Table, database_url: str
) -> None:
    """Both meet at a locked run in the middle, with all before it, in their order, locked already."""
    job = table.job()
    keys = [table.run(job, back=9 - n) for n in range(9)]
    # In a table this small the planner reads all of it, in an order of its own.
    table.conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, job_version, tier, task_kind)"
        " SELECT n % 1024, gen_random_uuid(), clock_timestamp(), 'succeeded', 'manual', 1, 'default', 'http'"
        " FROM generate_series(1, 20000) n"
    )
    table.conn.execute("ANALYZE")

    async def claim(conn: Connection, order: list[RunKey]) -> int:
        return len(await leases.claim(conn, [ask(key) for key in order], owner="w", lease=LEASE))

    async def main() -> list[int]:
        async with await leases.connect(database_url) as one, await leases.connect(database_url) as other:
            with table.conn.transaction():
                middle = (job, keys[4].scheduled_at)
                table.conn.execute(
                    "SELECT FROM runs WHERE job_id = %s AND scheduled_at = %s FOR UPDATE", middle
                )
                works = [
                    asyncio.ensure_future(claim(one, keys)),
                    asyncio.ensure_future(claim(other, keys[::-1])),
                ]
                for conn in (one, other):
                    await blocked(table, conn)
            return await asyncio.gather(*works)

    assert sorted(asyncio.run(main())) == [0, 9]


async def blocked(table: Table, conn: Connection) -> None:
    """Return when the connection waits for a lock; the database tells nobody, so it is asked."""
    question = "SELECT cardinality(pg_blocking_pids(%s))"
    while table.conn.execute(question, (conn.info.backend_pid,)).fetchone() == (0,):  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_a_lost_lease_never_overwrites(call: Call, table: Table) -> None:
    """200 runs that were reaped and claimed again, told by their first holder that they ended."""
    job = table.job()
    keys = [table.run(job, back=n) for n in range(200)]
    first = take(call, *(ask(key) for key in keys))
    table.conn.execute(
        "UPDATE runs SET status = 'queued', attempt = 2, lease_token = NULL, lease_expires_at = NULL"
    )
    second = take(call, *(ask(key, 2) for key in keys), owner="other")
    assert len(first) == len(second) == 200
    before = table.conn.execute("SELECT runs::text FROM runs ORDER BY scheduled_at").fetchall()
    endings = [Ending.SUCCEEDED, Ending.FAILED, Ending.CANCELLED, Ending.RETRY]
    stale = [ends(claimed, endings[n % 4]) for n, claimed in enumerate(first.values())]
    assert end(call, *stale) == {}
    # Not with the right attempt and an old token either, nor with the right token and an old attempt.
    for lease in (
        Lease(key=keys[0], attempt=2, token=uuid4()),
        Lease(key=keys[0], attempt=1, token=second[keys[0]].lease.token),
    ):
        assert end(call, replace(stale[0], lease=lease)) == {}
    assert table.conn.execute("SELECT runs::text FROM runs ORDER BY scheduled_at").fetchall() == before
    for name in ("triggers", "attempts", "run_outputs"):
        assert table.conn.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)


def test_a_heartbeat_renews_up_to_the_deadline_and_tells_what_is_lost_or_cancelled(
    call: Call, table: Table
) -> None:
    long, short = claim_one(call, table, timeoutSec=600), claim_one(call, table, timeoutSec=2)
    gone, wanted = claim_one(call, table), claim_one(call, table)
    table.conn.execute(
        "UPDATE runs SET lease_token = gen_random_uuid() WHERE job_id = %s", (gone.lease.key.job_id,)
    )
    table.conn.execute(
        "UPDATE runs SET cancel_requested = true WHERE job_id = %s", (wanted.lease.key.job_id,)
    )
    held = [c.lease for c in (long, short, gone, wanted)]
    alive = call(lambda conn: leases.heartbeat(conn, held, lease=timedelta(seconds=90)))
    assert alive == {long.lease.key: False, short.lease.key: False, wanted.lease.key: True}
    left = "extract(epoch FROM lease_expires_at - clock_timestamp())::float8"
    assert 80 < table.read(long.lease.key, left) <= 90
    assert table.read(short.lease.key, "lease_expires_at - deadline_at") == leases.DEADLINE_GRACE


def test_success_is_final_and_keeps_the_output(call: Call, table: Table) -> None:
    claimed = claim_one(call, table)
    output = Output(content=b"\x00\xff", content_type="text/plain", size=9, truncated=True)
    key = claimed.lease.key
    assert end(call, ends(claimed, Ending.SUCCEEDED, http_status=200, output=output)) == {key: "succeeded"}
    columns = "status, http_status, finished_at IS NULL, lease_token, lease_expires_at, lease_owner, reason"
    assert table.read(key, columns) == ("succeeded", 200, False, None, None, "w", None)
    assert table.outputs(key) == [(1, b"\x00\xff", 9, True)]
    assert table.attempts(key) == table.triggers(key) == []
    assert end(call, ends(claimed, Ending.FAILED)) == {}  # a second finish finds no lease


def test_a_retry_leaves_history_and_a_trigger(call: Call, table: Table) -> None:
    claimed = claim_one(call, table)
    key = claimed.lease.key
    result = ends(
        claimed,
        Ending.RETRY,
        reason=Reason.HTTP_STATUS,
        error="no\x00pe",
        http_status=503,
        delay=timedelta(seconds=40),
    )
    assert end(call, result) == {key: "scheduled"}
    columns = "status, attempt, reason, error, http_status, finished_at, lease_token, lease_owner"
    assert table.read(key, columns) == ("scheduled", 1, "http_status", "no\ufffdpe", 503, None, None, None)
    columns = "attempt, reason, error, http_status, lease_owner, started_at < finished_at"
    assert table.attempts(key, columns) == [(1, "http_status", "no\ufffdpe", 503, "w", True)]
    columns = "kind, attempt, limited, job_version, extract(epoch FROM fire_at - clock_timestamp())::float8"
    ((kind, attempt, limited, version, delay),) = table.triggers(key, columns)
    assert (kind, attempt, limited, version) == ("run", 2, False, 1)
    assert 35 < delay <= 40


def test_a_retry_of_a_run_to_be_cancelled_is_cancelled(call: Call, table: Table) -> None:
    claimed = claim_one(call, table)
    table.conn.execute("UPDATE runs SET cancel_requested = true")
    key = claimed.lease.key
    assert end(call, ends(claimed, Ending.RETRY, reason=Reason.TIMEOUT)) == {key: "cancelled"}
    assert table.read(key, "status, reason, finished_at IS NULL") == ("cancelled", "cancelled", False)
    assert table.triggers(key) == table.attempts(key) == []


def test_a_batch_of_mixed_ends_touches_each_run_as_told(call: Call, table: Table) -> None:
    one, two, three = (claim_one(call, table) for _ in range(3))
    out = Output(content=b"2", content_type=None, size=1, truncated=False)
    ended = end(
        call,
        ends(three, Ending.RETRY, reason=Reason.TIMEOUT),
        ends(one, Ending.FAILED, reason=Reason.TIMEOUT),
        ends(two, Ending.SUCCEEDED, output=out),
    )
    assert ended == {one.lease.key: "failed", two.lease.key: "succeeded", three.lease.key: "scheduled"}
    assert [len(table.outputs(c.lease.key)) for c in (one, two, three)] == [0, 1, 0]
    assert [len(table.triggers(c.lease.key)) for c in (one, two, three)] == [0, 0, 1]


QUEUE = {"overlap": "queue", "max": 2}


@pytest.mark.parametrize("ending", [Ending.SUCCEEDED, Ending.FAILED, Ending.CANCELLED])
def test_an_end_releases_the_oldest_waiting_run(call: Call, table: Table, ending: Ending) -> None:
    job = table.job(concurrency=QUEUE)
    running = [table.run(job, back=n) for n in (9, 8)]
    waiting = [table.run(job, status="waiting", attempt=0, back=n) for n in (7, 6, 5)]
    table.conn.execute("LISTEN tocsin")
    held = take(call, *(ask(key) for key in running))
    assert end(call, ends(held[running[0]], ending)) != {}
    assert [table.triggers(key) for key in waiting] == [[("run", 1, True)], [], []]
    assert len(list(table.conn.notifies(timeout=5, stop_after=1))) == 1
    # The first released one has not been fired yet: the next end releases the next, not the same again.
    assert end(call, ends(held[running[1]], ending)) != {}
    assert [len(table.triggers(key)) for key in waiting] == [1, 1, 0]


def test_a_retry_keeps_its_place_and_releases_nobody(call: Call, table: Table) -> None:
    job = table.job(concurrency={"overlap": "queue", "max": 1})
    running = table.run(job, back=9)
    waiting = table.run(job, status="waiting", attempt=0, back=7)
    held = take(call, ask(running))
    assert end(call, ends(held[running], Ending.RETRY, reason=Reason.TIMEOUT)) == {running: "scheduled"}
    assert table.triggers(running) == [("run", 2, False)]
    assert table.triggers(waiting) == []


def test_a_finish_of_a_limited_run_waits_for_the_lock_of_its_job(
    call: Call, table: Table, database_url: str
) -> None:
    """Firing counts live runs under the job's lock; an end in between would be missed by both."""
    job = table.job(concurrency=QUEUE)
    key = table.run(job)
    held = take(call, ask(key))

    async def main() -> None:
        async with await leases.connect(database_url) as conn:
            with table.conn.transaction():
                table.conn.execute("SELECT FROM jobs WHERE job_id = %s FOR NO KEY UPDATE", (job,))
                work = asyncio.ensure_future(leases.finish(conn, [ends(held[key], Ending.SUCCEEDED)]))
                await blocked(table, conn)
                assert table.read(key) == "running"
            assert await work == {key: "succeeded"}

    asyncio.run(main())
