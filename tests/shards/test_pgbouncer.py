"""Everything through PgBouncer in transaction mode: the statements, the API, a node and a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from starlette.testclient import TestClient

from platform_e2e.platform import Platform
from store.builder import Bench
from support.pgbouncer import PgBouncer
from support.receiver import Receiver
from tasks.table import Table
from tocsin.settings import Settings
from tocsin.store import firing, leases, migrate
from tocsin.store.connections import connect, transaction, tuned
from tocsin.store.leases import Ending, Lease, Result
from tocsin.store.shards import engine_for
from tocsin_api.app import create_app

TASK = {"http": {"url": "http://127.0.0.1:1/"}}
SESSION = {"enable_seqscan": "off", "work_mem": "7MB"}


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, database_url: str) -> str:
    """The test's database, through the pooler."""
    return pgbouncer.url_of(database_url)


def shown(conn: psycopg.Connection[tuple[object, ...]], name: str) -> object:
    row = conn.execute(f"SHOW {name}".encode()).fetchone()
    assert row is not None
    return row[0]


def test_a_pooler_is_recognised(database_url: str, pooled_url: str) -> None:
    with connect(database_url) as direct, connect(pooled_url) as pooled:
        assert (direct.pooled, pooled.pooled) == (False, True)


def test_a_session_s_settings_hold_in_its_transactions_and_nowhere_else(pooled_url: str) -> None:
    """More clients than server connections: what one left behind, another would find."""
    clients = [connect(pooled_url, session=SESSION if n % 2 else {}) for n in range(12)]
    try:
        for _ in range(3):
            for n, conn in enumerate(clients):
                with tuned(conn):
                    assert shown(conn, "enable_seqscan") == ("off" if n % 2 else "on")
                with transaction(conn):
                    assert shown(conn, "work_mem") == ("7MB" if n % 2 else "4MB")
                assert shown(conn, "enable_seqscan") == "on"
                assert shown(conn, "TimeZone") == "UTC"
    finally:
        for conn in clients:
            conn.close()


def test_times_are_utc_whatever_the_server_s_zone(database_url: str, pooled_url: str) -> None:
    with connect(database_url) as conn:
        name = conn.info.dbname
        conn.execute(f"ALTER DATABASE {name} SET TimeZone = 'Asia/Kolkata'".encode())
    for url in (database_url, pooled_url):
        with connect(url) as conn:
            assert conn.execute("SELECT clock_timestamp()").fetchone()[0].utcoffset() == timedelta(0)  # type: ignore[index]
        with engine_for(url).connect() as engine:
            now = engine.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
            assert now.utcoffset() == timedelta(0)
        engine_for(url).dispose()


def test_firing(pooled_url: str) -> None:
    with connect(pooled_url, session={"enable_seqscan": "off"}) as conn:
        bench = Bench(conn)
        now = bench.now() - timedelta(seconds=1)
        job = bench.job(now, schedule={"every": "1h", "anchor": now.isoformat()})
        limited = bench.job(now, schedule={"at": now.isoformat()}, concurrency="skip")
        seen = firing.look_ahead(conn, bench.plans, list(bench.owned), 5.0)
        assert sum(due.count for due in seen.due) == 2
        done = firing.fire(conn, bench.plans, bench.owned, limit=10)
        assert {run.job_id for run in done.runs} == {job, limited}
        assert bench.runs(job) == [(now, "queued")]
        assert bench.triggers(job) == [(now + timedelta(hours=1), "schedule")]


def test_claiming_and_finishing(database_url: str, pooled_url: str) -> None:
    async def work(lease: Lease) -> None:
        conn = await leases.connect(pooled_url)
        async with conn:
            assert conn.pooled
            term = timedelta(seconds=30)
            claimed = await leases.claim(conn, [lease], owner="worker", lease=term)
            assert list(claimed) == [lease.key]
            assert await leases.heartbeat(conn, [lease], lease=term) == {lease.key: False}
            limited = claimed[lease.key].limited
            ended = await leases.finish(conn, [Result(lease=lease, limited=limited, ending=Ending.SUCCEEDED)])
            assert [str(status) for status in ended.values()] == ["succeeded"]

    with connect(database_url) as conn:
        table = Table(conn)
        for overlap in ("allow", "queue"):
            key = table.run(table.job(concurrency=overlap))
            lease = Lease(key=key, attempt=1, token=key.job_id)
            asyncio.run(work(lease))
            assert table.read(key) == "succeeded"


def test_the_api_s_operations(pooled_url: str) -> None:
    with TestClient(create_app(Settings(database_url=pooled_url))) as http:
        made = http.post(
            "/jobs", json={"name": "a", "task": TASK, "schedule": "@daily"}, headers={"idempotency-key": "k"}
        )
        assert made.status_code == 201, made.text
        again = http.post(
            "/jobs", json={"name": "a", "task": TASK, "schedule": "@daily"}, headers={"idempotency-key": "k"}
        )
        assert again.content == made.content
        assert http.patch("/jobs/name:a", json={"owner": "x"}).json()["version"] == 2
        assert http.post("/jobs/name:a/pause", json={}).json()["paused"]
        assert http.post("/jobs/name:a/resume", json={}).json()["nextRunAt"]
        run = http.post("/jobs/name:a/runs").json()["runId"]
        assert http.post(f"/runs/{run}/cancel", json={}).json()["status"] == "cancelled"
        assert [r["runId"] for r in http.get("/jobs/name:a/runs").json()["items"]] == [run]
        assert len(http.get("/jobs").json()["items"]) == 1
        assert http.get("/readyz").json()["status"] == "ok"
        assert http.delete("/jobs/name:a").status_code == 204
    engine_for(pooled_url).dispose()


def test_an_upgrade_asks_for_the_direct_address(pooled_url: str) -> None:
    with pytest.raises(migrate.PooledError, match="TOCSIN_DIRECT_URL"):
        migrate.upgrade(pooled_url)


@pytest.fixture
def pooled_platform(pooled_url: str, database_url: str, rabbitmq_vhost: str) -> Iterator[Platform]:
    """The processes know the pooler only."""
    with Platform(pooled_url, rabbitmq_vhost, watched=database_url) as platform:
        yield platform


def test_a_node_and_a_worker_without_a_direct_address(pooled_platform: Platform, receiver: Receiver) -> None:
    platform = pooled_platform
    node, worker = platform.node(), platform.worker()
    job = platform.create("every-second", f"{receiver.url}/ok", schedule={"every": "1s"})
    flaky = platform.create(
        "flaky", f"{receiver.url}/status/503?times=1", retryPolicy={"maxAttempts": 2, "initial": "100ms"}
    )
    run = platform.wait_for_end(platform.trigger(flaky))
    assert (run["status"], run["attempt"]) == ("succeeded", 2)
    receiver.wait_for(lambda request: request.path.startswith("/ok"), count=4, timeout=30)
    platform.client.post(f"/jobs/{job}/pause", json={})
    platform.wait(lambda: not [r for r in platform.runs(job) if r["status"] != "succeeded"])
    seconds = {r["nominalTime"][17:19] for r in platform.runs(job)}
    assert len(seconds) == len(platform.runs(job)) >= 4, "one run a second"
    for process in (node, worker):
        process.wait_for_line("TOCSIN_DIRECT_URL")
        assert process.text().count("TOCSIN_DIRECT_URL") == 1, "told once"
    held = platform.trigger(platform.create("held", f"{receiver.url}/hold"))
    receiver.wait_for(lambda request: request.key == held, count=1, timeout=30)
    assert platform.client.post(f"/runs/{held}/cancel", json={}).status_code == 202
    assert platform.wait_for_end(held)["status"] == "cancelled"


def test_with_a_direct_address_hints_arrive(
    pooled_url: str, database_url: str, rabbitmq_vhost: str, receiver: Receiver
) -> None:
    slow = {"TOCSIN_POLL_INTERVAL": "10"}
    with Platform(
        pooled_url, rabbitmq_vhost, watched=database_url, TOCSIN_DIRECT_URL=database_url, **slow
    ) as platform:
        platform.node()
        platform.worker()
        job = platform.create("by-hand", f"{receiver.url}/ok")
        for _ in range(3):  # the first may meet a poll
            run = platform.wait_for_end(platform.trigger(job))
        assert run["latenessSec"] < 2
