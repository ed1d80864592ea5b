"""The firing transaction: what is due becomes a run, exactly once, from the current version, under the epoch."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from store.builder import Bench
from tocsin import schedules
from tocsin.ids import partition_of
from tocsin.store import partitions
from tocsin.store.firing import fire, look_ahead
from tocsin.store.shards import connect

MINUTE = timedelta(minutes=1)


def fire_all(bench: Bench) -> Any:
    return fire(bench.conn, bench.plans, bench.owned, limit=1000)


def test_a_due_trigger_becomes_a_queued_run_and_moves_on(bench: Bench) -> None:
    nominal = bench.now().replace(microsecond=0) - timedelta(seconds=2)
    job = bench.job(nominal, schedule={"everySec": 60, "anchor": nominal.isoformat()})
    done = fire_all(bench)
    assert [run.key.job_id for run in done.runs] == [job]
    assert bench.runs(job, "scheduled_at, status, attempt, origin") == [(nominal, "queued", 1, "schedule")]
    assert bench.triggers(job) == [(nominal + MINUTE, "schedule")]
    assert fire_all(bench).runs == []


def test_nothing_fires_before_the_database_says_so(bench: Bench) -> None:
    nominal = bench.now() + timedelta(seconds=3)
    job = bench.job(nominal, schedule="@hourly")
    look = look_ahead(bench.conn, bench.plans, list(bench.owned), 5.0)
    assert [(due.partition, due.count) for due in look.due] == [(partition_of(job), 1)]
    assert look.due[0].fire_at >= nominal
    assert look.due[0].fire_at - nominal < timedelta(milliseconds=20)
    assert fire_all(bench).runs == []
    assert bench.runs(job) == []


def test_a_one_off_leaves_no_trigger(bench: Bench) -> None:
    nominal = bench.now() - timedelta(seconds=1)
    job = bench.job(nominal, schedule={"at": nominal.isoformat()})
    assert len(fire_all(bench).runs) == 1
    assert bench.triggers(job) == []


def test_two_nominal_times_of_one_job_never_make_one_run_twice(bench: Bench) -> None:
    nominal = bench.now() - timedelta(seconds=2)
    job = bench.job(nominal, schedule={"everySec": 60, "anchor": nominal.isoformat()})
    fire_all(bench)
    bench.conn.execute("UPDATE triggers SET fire_at = %s, scheduled_at = %s", (nominal, nominal))
    assert fire_all(bench).runs == []
    assert len(bench.runs(job)) == 1
    assert bench.triggers(job) == [(nominal + MINUTE, "schedule")]


def test_a_trigger_of_an_older_version_is_dropped(bench: Bench) -> None:
    nominal = bench.now() - timedelta(seconds=1)
    job = bench.job(nominal, schedule="@hourly")
    bench.conn.execute("UPDATE jobs SET version = 2")
    done = fire_all(bench)
    assert (done.runs, done.stale) == ([], 1)
    assert bench.runs(job) == []


def test_a_trigger_of_a_newer_version_is_left_for_the_next_look(bench: Bench) -> None:
    """As when an edit commits between the statement's snapshot and its row lock."""
    job = bench.job(bench.now() - timedelta(seconds=1), schedule="@hourly")
    bench.conn.execute("UPDATE triggers SET job_version = 2")
    done = fire_all(bench)
    assert (done.runs, done.stale) == ([], 0)
    assert len(bench.triggers(job)) == 1


@pytest.mark.parametrize("column", ["paused = true", "deleted_at = clock_timestamp()"])
def test_a_paused_or_deleted_job_does_not_fire(bench: Bench, column: str) -> None:
    job = bench.job(bench.now() - timedelta(seconds=1), schedule="@hourly")
    bench.conn.execute(f"UPDATE jobs SET {column}")
    assert fire_all(bench).runs == []
    assert bench.runs(job) == []


def test_a_stale_epoch_changes_nothing(bench: Bench) -> None:
    job = bench.job(bench.now() - timedelta(seconds=1), schedule="@hourly")
    partitions.take(bench.conn, [partition_of(job)], "another")
    done = fire_all(bench)
    assert done.fenced == [partition_of(job)]
    assert done.runs == []
    assert bench.runs(job) == []


def test_a_takeover_waits_for_the_firing_transaction_and_sees_its_runs(
    bench: Bench, database_url: str
) -> None:
    job = bench.job(bench.now() - timedelta(seconds=1), schedule="@hourly")
    other = connect(database_url)
    found: list[Any] = []

    def take_over() -> None:
        partitions.take(other, [partition_of(job)], "another")
        found.extend(partitions.unpublished(other, partition_of(job)).runs)

    thread = threading.Thread(target=take_over)
    with bench.conn.transaction():
        fire_all(bench)
        thread.start()
        blocked = _wait_for_lock(database_url)
    thread.join(10)
    other.close()
    assert blocked
    assert [run.job_id for run in found] == [job]


def _wait_for_lock(database_url: str) -> bool:
    """True once some backend waits for a lock of another."""
    with connect(database_url) as watcher:
        for _ in range(2000):
            row = watcher.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
            if row and row[0]:
                return True
    return False


def test_a_locked_trigger_is_skipped_and_fired_after_the_edit(bench: Bench, database_url: str) -> None:
    job = bench.job(bench.now() - timedelta(seconds=1), schedule="@hourly")
    with connect(database_url, autocommit=False) as editor:
        editor.execute("SELECT FROM triggers FOR UPDATE")
        assert fire_all(bench).runs == []
        editor.commit()
    assert len(fire_all(bench).runs) == 1
    assert len(bench.runs(job)) == 1


def test_a_retry_is_sent_with_the_attempt_of_its_trigger(bench: Bench) -> None:
    job = bench.job()
    nominal = bench.now()
    _insert_run(bench, job, nominal, "scheduled", attempt=1)
    _run_trigger(bench, job, nominal, attempt=2)
    done = fire_all(bench)
    assert [(run.job_id, run.attempt) for run in done.runs] == [(job, 2)]
    assert bench.runs(job, "status, attempt") == [("queued", 2)]
    assert bench.triggers(job) == []


def test_a_cancelled_run_is_not_sent_by_its_trigger(bench: Bench) -> None:
    job = bench.job()
    nominal = bench.now()
    _insert_run(bench, job, nominal, "cancelled", attempt=1)
    _run_trigger(bench, job, nominal, attempt=2)
    assert fire_all(bench).runs == []
    assert bench.triggers(job) == []


def test_takeover_publishes_what_lies_beyond_the_watermark_only(bench: Bench) -> None:
    first = bench.job(bench.now() - timedelta(seconds=1), schedule="@hourly")
    partition = partition_of(first)
    done = fire_all(bench)
    assert len(partitions.unpublished(bench.conn, partition).runs) == 1
    marks = {partition: (bench.owned[partition], done.fired_at)}
    assert partitions.set_watermarks(bench.conn, marks) == set()
    assert partitions.unpublished(bench.conn, partition).runs == []
    stale = {partition: (bench.owned[partition] - 1, done.fired_at)}
    assert partitions.set_watermarks(bench.conn, stale) == {partition}


def test_unpublished_runs_come_in_pages(bench: Bench) -> None:
    job = bench.job()
    base = bench.now()
    for n in range(7):
        _insert_run(bench, job, base + timedelta(seconds=n), "queued", attempt=1)
    seen, after = [], None
    while True:
        page = partitions.unpublished(bench.conn, partition_of(job), after, limit=3)
        seen += page.runs
        after = page.after
        if after is None:
            break
    assert len(seen) == len({run.run_id for run in seen}) == 7


def test_jitter_in_sql_is_jitter_in_python(bench: Bench) -> None:
    jitter = timedelta(seconds=90)
    for n in range(50):
        job, nominal = uuid4(), bench.now() + timedelta(seconds=37 * n)
        expected = schedules.jitter_for(job, nominal, jitter)
        row = bench.conn.execute("SELECT jitter_of(%s, %s, 90000000)", (job, nominal)).fetchone()
        assert row == (expected,)


def test_the_trigger_moves_on_to_nominal_plus_jitter(bench: Bench) -> None:
    nominal = bench.now().replace(microsecond=0) - timedelta(seconds=2)
    job = bench.job(nominal, schedule={"everySec": 60, "anchor": nominal.isoformat(), "jitter": "30s"})
    fire_all(bench)
    expected = nominal + MINUTE + schedules.jitter_for(job, nominal + MINUTE, timedelta(seconds=30))
    assert bench.triggers(job, "scheduled_at, fire_at") == [(nominal + MINUTE, expected)]


def test_many_jobs_of_one_spec_fire_in_one_statement(bench: Bench) -> None:
    nominal = bench.now().replace(microsecond=0) - timedelta(seconds=1)
    schedule = {"everySec": 60, "anchor": nominal.isoformat()}
    jobs = [bench.job(nominal, schedule=schedule) for _ in range(200)]
    done = fire_all(bench)
    assert {run.job_id for run in done.runs} == set(jobs)
    assert {run.job_name for run in done.runs} == {f"job-{n + 1}" for n in range(200)}


def _insert_run(bench: Bench, job: Any, nominal: datetime, status: str, *, attempt: int) -> None:
    bench.conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier,"
        " task_kind, fired_at) VALUES (%s, %s, %s, %s, 'manual', %s, 1, 'default', 'http', clock_timestamp())",
        (partition_of(job), job, nominal, status, attempt),
    )


def _run_trigger(bench: Bench, job: Any, nominal: datetime, *, attempt: int) -> None:
    bench.conn.execute(
        "INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, attempt)"
        " VALUES (%s, clock_timestamp(), %s, %s, 'run', 1, %s)",
        (partition_of(job), job, nominal, attempt),
    )


def test_a_spec_that_cannot_be_read_stops_only_its_own_jobs(bench: Bench) -> None:
    nominal = bench.now() - timedelta(seconds=1)
    broken = bench.job(nominal, schedule="@hourly")
    bench.conn.execute('UPDATE specs SET spec = \'{"schedule": {"cron": "of another age"}}\'')
    sound = bench.job(nominal, schedule="@daily")
    assert [run.job_id for run in fire_all(bench).runs] == [sound]
    assert bench.runs(broken) == []
    assert len(bench.triggers(broken)) == 1
