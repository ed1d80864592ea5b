"""A job never exists without its trigger; nothing vanishes; of many at once one wins."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from store_api.conftest import RETENTION, Store
from tocsin.errors import ConflictError, NotFoundError, ShardUnavailableError, StaleVersionError, TocsinError
from tocsin.store import job_edits, jobs, run_cancel, runs
from tocsin.store.plans import parse_spec

BREAK = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON triggers FOR EACH ROW EXECUTE FUNCTION refuse()
"""
KILL = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
CREATE TRIGGER die BEFORE INSERT ON triggers FOR EACH ROW EXECUTE FUNCTION die()
"""


@pytest.mark.parametrize("fault", [BREAK, KILL], ids=["refused", "connection lost"])
def test_no_job_without_its_trigger(store: Store, fault: str) -> None:
    store.create("before", schedule="@hourly", paused=True)
    store.db.execute(fault)
    with pytest.raises((DBAPIError, ShardUnavailableError)):
        store.create(schedule="@hourly")
    with pytest.raises((DBAPIError, ShardUnavailableError)):
        store.run(lambda conn: job_edits.set_paused(conn, store.ref("before"), False))
    assert store.rows("SELECT name, paused, version FROM jobs") == [("before", True, 1)]
    assert store.triggers() == []


@pytest.mark.parametrize("fault", [BREAK, KILL], ids=["refused", "connection lost"])
def test_no_manual_run_without_its_trigger(store: Store, fault: str) -> None:
    store.create()
    store.db.execute(fault)
    with pytest.raises((DBAPIError, ShardUnavailableError)):
        store.run(lambda conn: runs.start(conn, store.ref(), retention=RETENTION))
    assert store.rows("SELECT count(*) FROM runs") == [(0,)]


def test_of_twenty_creates_of_one_name_one_wins(store: Store) -> None:
    def create(n: int) -> str:
        try:
            store.create(schedule="@hourly", owner=f"team-{n}")
        except ConflictError as error:
            return error.code
        return "made"

    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(create, range(20)))
    assert sorted(results) == ["made"] + ["name_taken"] * 19
    assert len(store.triggers()) == 1


def test_of_many_edits_of_one_version_one_wins(store: Store) -> None:
    store.create(schedule="@hourly")

    def change(n: int) -> int:
        try:
            store.run(
                lambda conn: job_edits.edit(
                    conn, store.ref(), lambda d: {**d, "schedule": f"{n} 3 * * *"}, lambda v: v == 1
                )
            )
        except StaleVersionError as error:
            return error.current
        return 0

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(change, range(10))) == [0] + [2] * 9
    assert [row[2] for row in store.triggers()] == [2]


def test_edits_at_once_leave_one_trigger_of_the_last_version(store: Store) -> None:
    store.create(schedule="@hourly")

    def change(n: int) -> None:
        def patch(document: dict[str, Any]) -> dict[str, Any]:
            return {**document, "paused": n % 3 == 0, "schedule": f"{n} 3 * * *"}

        # Many at once may give up after their tries; what must hold is the state they leave.
        with contextlib.suppress(TocsinError):
            store.run(lambda conn: job_edits.edit(conn, store.ref(), patch))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(24)))
    job = store.get()
    expected = [] if job.document["paused"] else [(job.next_run_at, "schedule", job.version)]
    assert store.triggers() == expected


def test_what_was_due_is_recorded_when_an_edit_drops_it(store: Store) -> None:
    for name, change in (
        ("a", lambda d: {**d, "schedule": "0 3 * * *"}),
        ("b", lambda d: {**d, "paused": True}),
    ):
        start = store.now().replace(microsecond=0) - timedelta(minutes=10)
        job = store.create(
            name, schedule={"every": "1m", "anchor": start.isoformat(), "start": start.isoformat()}
        )
        assert job.next_run_at == start
        store.run(lambda conn, n=name, c=change: job_edits.edit(conn, store.ref(n), c))
        gap = store.rows(
            "SELECT first_at, last_at, count, job_version FROM gaps WHERE job_id = %s", job.job_id
        )
        assert gap == [(start, start + timedelta(minutes=10), 11, 1)]


def test_an_edit_beside_the_times_keeps_what_is_due(store: Store) -> None:
    start = store.now().replace(microsecond=0) - timedelta(minutes=10)
    store.create(schedule={"every": "1m", "anchor": start.isoformat(), "start": start.isoformat()})
    store.run(
        lambda conn: job_edits.edit(conn, store.ref(), lambda d: {**d, "timeoutSec": 5, "catchUp": "all"})
    )
    assert store.triggers() == [(start, "schedule", 2)]
    assert store.rows("SELECT count(*) FROM gaps") == [(0,)]


def test_a_start_or_an_instant_in_the_past_begins_there(store: Store) -> None:
    past = store.now().replace(microsecond=0) - timedelta(hours=5)
    a = store.create("a", schedule={"at": past.isoformat()}, catchUp={"mode": "all", "window": "6h"})
    assert a.next_run_at == past
    b = store.create("b", schedule={"cron": "* * * * *", "start": past.isoformat()})
    assert b.next_run_at is not None
    assert timedelta(0) <= b.next_run_at - past < timedelta(minutes=1)


def test_the_spec_is_what_the_firing_side_reads(store: Store) -> None:
    for name, jitter in (("a", "0s"), ("b", "30s")):
        store.create(
            name, schedule={"cron": "0 2 * * *", "jitter": jitter}, catchUp={"mode": "all", "window": "1h"}
        )
    ((raw,),) = store.rows("SELECT spec FROM specs")
    assert set(raw) == {"schedule", "catchUp"}
    assert "jitterSec" not in raw["schedule"]
    spec = parse_spec(raw)
    assert spec.catch_up.window_sec == 3600
    assert store.rows("SELECT DISTINCT spec_id FROM triggers") == store.rows("SELECT spec_id FROM specs")
    rows = store.rows("SELECT jitter_us, fire_at - scheduled_at FROM triggers ORDER BY jitter_us")
    assert rows[0] == (0, timedelta(0))
    assert timedelta(0) <= rows[1][1] < timedelta(seconds=30)


def test_a_trigger_due_soon_is_announced_at_the_commit(store: Store) -> None:
    store.db.execute("LISTEN tocsin")
    job = store.create(schedule={"every": "2s"})
    assert [n.payload for n in store.db.notifies(timeout=5, stop_after=1)] == [str(job.partition)]


def test_an_edit_waits_for_the_node_and_sees_what_it_left(store: Store, database_url: str) -> None:
    """The node holds the trigger and advances it; the edit keeps the time that the node has set."""
    job = store.create(schedule={"every": "1h"})
    assert job.next_run_at is not None
    later = job.next_run_at + timedelta(hours=1)
    with psycopg.connect(store.shard.dsn) as node, ThreadPoolExecutor(1) as pool:
        node.execute("SELECT 1 FROM triggers FOR UPDATE")
        edit = pool.submit(
            store.run, lambda conn: job_edits.edit(conn, store.ref(), lambda d: {**d, "owner": "x"})
        )
        while not store.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            assert not edit.done()
        node.execute("UPDATE triggers SET scheduled_at = %s, fire_at = %s", (later, later))
        node.commit()
        assert edit.result().next_run_at == later
    assert store.triggers() == [(later, "schedule", 2)]


def test_a_trigger_that_appeared_behind_the_lock_begins_the_edit_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(schedule="@hourly", paused=True)
    calls = []
    matching = jobs.matching

    def slipping(ref: Any) -> Any:
        calls.append(ref)
        if len(calls) == 2:  # the triggers are read, the job row is not locked yet
            store.run(lambda conn: job_edits.set_paused(conn, store.ref(), False))
        return matching(ref)

    monkeypatch.setattr(jobs, "matching", slipping)
    store.run(lambda conn: job_edits.edit(conn, store.ref(), lambda d: {**d, "schedule": "0 3 * * *"}))
    job = store.get()
    assert store.triggers() == [(job.next_run_at, "schedule", 3)]


def test_cancel_and_finish_do_not_lose_a_retry(store: Store) -> None:
    """A run that became `scheduled` with a trigger behind the lock is cancelled with that trigger."""
    store.create()
    key = store.run(lambda conn: runs.start(conn, store.ref(), retention=RETENTION))
    done = store.run(lambda conn: run_cancel.cancel(conn, key))
    assert (done.ended, done.asked) == (1, 0)
    assert store.triggers() == []


def test_a_delete_leaves_no_run_to_be_started(store: Store) -> None:
    store.create()

    def start(_: int) -> str:
        try:
            store.run(lambda conn: runs.start(conn, ref, retention=RETENTION))
        except TocsinError as error:
            return error.code
        return "made"

    ref = jobs.parse_ref(f"job_{store.get().job_id.hex}", "default")

    def remove(conn: Connection) -> Any:
        return job_edits.remove(conn, ref, cancel_runs=True)

    with ThreadPoolExecutor(6) as pool:
        started = [pool.submit(start, n) for n in range(12)]
        removing = pool.submit(store.run, remove)
        removing.result()
        assert {future.result() for future in started} <= {"made", "not_found"}
    assert store.triggers() == []
    assert store.rows("SELECT count(*) FROM runs WHERE status <> 'cancelled'") == [(0,)]


def test_a_run_waits_for_a_delete_that_has_begun(store: Store) -> None:
    store.create()
    with psycopg.connect(store.shard.dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE jobs SET deleted_at = clock_timestamp()")
        starting = pool.submit(store.run, lambda conn: runs.start(conn, store.ref(), retention=RETENTION))
        while not store.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            assert not starting.done()
        other.commit()
        with pytest.raises(NotFoundError):
            starting.result()
    assert store.rows("SELECT count(*) FROM runs") == [(0,)]


def test_history_reads_only_the_days_it_needs(store: Store) -> None:
    job = store.create()
    plan = store.rows(
        "EXPLAIN SELECT * FROM runs WHERE partition_id = %s AND job_id = %s AND scheduled_at < %s"
        " AND scheduled_at >= %s ORDER BY scheduled_at DESC LIMIT 51",
        job.partition, job.job_id, store.now(), store.now() - timedelta(hours=1),
    )  # fmt: skip
    text = "\n".join(row[0] for row in plan)
    assert "_pkey" in text
    assert "Seq Scan" not in text
    assert text.count("Index Scan") <= 2
