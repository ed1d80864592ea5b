"""A lost lease costs an attempt, never the run; a live one is left alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from store.builder import Bench
from tocsin.ids import partition_of
from tocsin.store import partitions, reaping_sql
from tocsin.store.reaping import reap, sweep


def running(
    bench: Bench, job: UUID, *, lease: float, attempt: int = 1, deadline: float = 300, limited: bool = False,
    cancel: bool = False, at: datetime | None = None,
) -> datetime:  # fmt: skip
    """A running run whose lease ends in `lease` seconds and whose deadline is in `deadline` seconds."""
    nominal = at or bench.now()
    now = bench.now()
    bench.conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier,"
        " task_kind, limited, cancel_requested, fired_at, attempt_started_at, started_at, lease_owner, lease_token,"
        " lease_expires_at, deadline_at) VALUES (%s, %s, %s, 'running', 'schedule', %s, 1, 'default', 'http', %s, %s,"
        " clock_timestamp(), clock_timestamp(), clock_timestamp(), 'w1', %s, %s, %s)",
        (
            partition_of(job), job, nominal, attempt, limited, cancel, uuid4(),
            now + timedelta(seconds=lease), now + timedelta(seconds=deadline),
        ),
    )  # fmt: skip
    return nominal


def test_an_expired_lease_is_sent_again_with_the_attempt_raised(bench: Bench) -> None:
    job = bench.job()
    running(bench, job, lease=-1)
    done = reap(bench.conn, bench.owned)
    assert [(run.job_id, run.attempt) for run in done.runs] == [(job, 2)]
    assert bench.runs(job, "status, attempt, lease_token, reason") == [("queued", 2, None, "lease_expired")]
    history = bench.conn.execute("SELECT attempt, reason, lease_owner FROM attempts").fetchall()
    assert history == [(1, "lease_expired", "w1")]
    assert [run.attempt for run in partitions.unpublished(bench.conn, partition_of(job)).runs] == [2]


def test_a_live_lease_is_left_alone(bench: Bench) -> None:
    job = bench.job()
    running(bench, job, lease=5)
    assert reap(bench.conn, bench.owned).runs == []
    assert bench.runs(job, "status, attempt") == [("running", 1)]


@pytest.mark.parametrize(("deadline", "reason"), [(300, "lease_expired"), (-1, "timeout")])
def test_the_last_attempt_fails_the_run(bench: Bench, deadline: float, reason: str) -> None:
    job = bench.job(retryPolicy={"maxAttempts": 2})
    running(bench, job, lease=-1, attempt=2, deadline=deadline)
    done = reap(bench.conn, bench.owned)
    assert (done.runs, done.failed) == ([], 1)
    assert bench.runs(job, "status, attempt, reason, finished_at IS NULL") == [("failed", 2, reason, False)]


def test_a_cancelled_run_whose_worker_died_ends_cancelled(bench: Bench) -> None:
    job = bench.job()
    running(bench, job, lease=-1, cancel=True)
    assert reap(bench.conn, bench.owned).cancelled == 1
    assert bench.runs(job, "status, reason") == [("cancelled", "cancelled")]


def test_a_stale_epoch_reaps_nothing(bench: Bench) -> None:
    job = bench.job()
    running(bench, job, lease=-1)
    partitions.take(bench.conn, [partition_of(job)], "another")
    done = reap(bench.conn, bench.owned)
    assert (done.runs, done.fenced) == ([], [partition_of(job)])
    assert bench.runs(job, "status") == [("running",)]


def test_a_limited_run_that_fails_releases_the_next(bench: Bench) -> None:
    job = bench.job(retryPolicy={"maxAttempts": 1}, concurrency="queue")
    first = running(bench, job, lease=-1, limited=True)
    bench.conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, job_version, tier, task_kind, limited)"
        " VALUES (%s, %s, %s, 'waiting', 'schedule', 1, 'default', 'http', true)",
        (partition_of(job), job, first + timedelta(seconds=1)),
    )
    assert reap(bench.conn, bench.owned).released == 1
    assert bench.triggers(job) == [(first + timedelta(seconds=1), "run")]


def test_a_run_that_nobody_claims_is_published_again(bench: Bench) -> None:
    job = bench.job()
    running(bench, job, lease=60)
    bench.conn.execute(
        "UPDATE runs SET status = 'queued', fired_at = clock_timestamp() - interval '10 minutes'"
    )
    assert sweep(bench.conn, bench.owned, older_than=900).runs == []
    assert [run.attempt for run in sweep(bench.conn, bench.owned, older_than=300).runs] == [1]
    assert sweep(bench.conn, bench.owned, older_than=300).runs == []


def test_a_heartbeat_between_the_look_and_the_update_wins(bench: Bench, database_url: str) -> None:
    """The update repeats the condition: a lease renewed, or taken anew, after the look is left alone."""
    job = bench.job()
    nominal = running(bench, job, lease=-1)
    found = bench.conn.execute("SELECT lease_token FROM runs").fetchone()
    bench.conn.execute("UPDATE runs SET lease_expires_at = clock_timestamp() + interval '30 s'")
    args = {"partitions": [partition_of(job)], "jobs": [job], "nominals": [nominal], "tokens": [found[0]]}
    assert bench.conn.execute(reaping_sql.REAP, {**args, "now": bench.now()}).fetchall() == []
    bench.conn.execute("UPDATE runs SET lease_expires_at = '2020-01-01', lease_token = gen_random_uuid()")
    assert bench.conn.execute(reaping_sql.REAP, {**args, "now": bench.now()}).fetchall() == []
    assert bench.runs(job, "status, attempt") == [("running", 1)]
