"""What the API writes, a node fires: the two sides agree on specs, triggers, versions and places."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from store_api.conftest import RETENTION, Store
from tocsin.ids import PARTITIONS, parse_run_id
from tocsin.store import job_edits, partitions, run_cancel, runs
from tocsin.store.firing import fire
from tocsin.store.plans import PlanCache


def fire_all(store: Store) -> list[str]:
    """One pass of a node that owns everything; the IDs of the runs it queued."""
    owned = {t.partition: t.epoch for t in partitions.take(store.db, range(PARTITIONS), "node")}
    return [str(run.key) for run in fire(store.db, PlanCache(), owned, limit=100).runs]


def statuses(store: Store) -> list[str]:
    return [row[0] for row in store.rows("SELECT status FROM runs ORDER BY scheduled_at")]


def start(store: Store) -> str:
    return str(store.run(lambda conn: runs.start(conn, store.ref(), retention=RETENTION)))


def test_a_created_job_fires(store: Store) -> None:
    past = store.now().replace(microsecond=0) - timedelta(seconds=2)
    store.create(schedule={"at": past.isoformat()})
    assert len(fire_all(store)) == 1
    assert store.triggers() == []


def test_an_edited_job_fires_at_its_new_version(store: Store) -> None:
    past = store.now().replace(microsecond=0) - timedelta(seconds=2)
    store.create(schedule={"at": past.isoformat()})
    store.run(lambda conn: job_edits.edit(conn, store.ref(), lambda d: {**d, "owner": "x"}))
    assert len(fire_all(store)) == 1
    assert store.rows("SELECT job_version FROM runs") == [(2,)]


def test_a_paused_and_a_deleted_job_do_not_fire(store: Store) -> None:
    past = store.now().replace(microsecond=0) - timedelta(seconds=2)
    for name in ("paused", "deleted"):
        store.create(name, schedule={"at": past.isoformat()})
    store.run(lambda conn: job_edits.set_paused(conn, store.ref("paused"), True))
    store.run(lambda conn: job_edits.remove(conn, store.ref("deleted")))
    assert fire_all(store) == []
    assert store.rows("SELECT count(*) FROM gaps") == [(2,)]


def test_manual_runs_and_re_runs_are_sent(store: Store) -> None:
    store.create()
    first = start(store)
    assert fire_all(store) == [first]
    store.db.execute("UPDATE runs SET status = 'failed', finished_at = clock_timestamp()")
    key = store.run(lambda conn: runs.rerun(conn, _key(first)))
    assert fire_all(store) == [str(key)]


def test_a_cancelled_place_goes_to_the_one_that_waits(store: Store) -> None:
    store.create(concurrency="queue")
    first = start(store)
    assert fire_all(store) == [first]
    second = start(store)
    assert fire_all(store) == []
    assert statuses(store) == ["queued", "waiting"]

    def cancel(conn: Connection) -> Any:
        return run_cancel.cancel(conn, _key(first))

    store.run(cancel)
    assert fire_all(store) == [second]
    assert statuses(store) == ["cancelled", "queued"]
    assert store.triggers() == []


def _key(text: str) -> Any:
    return parse_run_id(text)
