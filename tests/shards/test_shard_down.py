"""One of two shards is away: what the API still does for the other one's jobs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from shards.names import in_shard
from support.databases import Databases
from support.shards import away
from tocsin.clock import monotonic
from tocsin.errors import ShardUnavailableError
from tocsin.settings import Settings
from tocsin.store import gates, transactions

TASK = {"http": {"url": "http://127.0.0.1:1/"}}


def test_the_other_shard_s_jobs_are_served(
    http: TestClient, databases: Databases, shard_urls: list[str]
) -> None:
    (lost,) = in_shard(0, 511, 1)
    served = in_shard(512, 1023, 40)
    assert http.post("/jobs", json={"name": lost, "task": TASK}).status_code == 201
    with away(databases, shard_urls[0]):
        gone = http.get(f"/jobs/name:{lost}")
        assert (gone.status_code, gone.json()["code"]) == (503, "shard_unavailable")
        assert "0-511" in gone.json()["detail"]
        assert gone.headers["retry-after"]
        for name in served:  # with keys, half of which are bound in the shard that is away
            body, key = {"name": name, "task": TASK}, {"idempotency-key": f"key-{name}"}
            first = http.post("/jobs", json=body, headers=key)
            assert first.status_code == 201, first.text
            assert http.post("/jobs", json=body, headers=key).content == first.content
            run = http.post(f"/jobs/name:{name}/runs")
            assert run.status_code == 202
            assert http.get(f"/runs/{run.json()['runId']}").status_code == 200


def test_readiness_names_the_shard_and_stays_ready_for_the_other(
    http: TestClient, databases: Databases, shard_urls: list[str]
) -> None:
    assert http.get("/readyz").json() == {"status": "ok", "problems": []}
    with away(databases, shard_urls[0]):
        half = http.get("/readyz")
        assert (half.status_code, half.json()["status"]) == (200, "degraded")
        assert [("0-511" in text, "512-1023" in text) for text in half.json()["problems"]] == [(True, False)]
        with away(databases, shard_urls[1]):
            none = http.get("/readyz")
            assert (none.status_code, none.json()["status"]) == (503, "unavailable")
            assert len(none.json()["problems"]) == 2
            assert http.get("/healthz").status_code == 200


def test_requests_for_a_silent_shard_do_not_use_up_the_threads(
    sharded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as may wait for one shard; the next is refused at once, and another shard's goes through."""
    monkeypatch.setattr(gates, "SLOW", 0.05)
    shards = Settings(database_url=sharded).shards
    silent, other = shards.shards
    holding, release = threading.Semaphore(0), threading.Event()

    def hold(_: object) -> None:
        holding.release()
        assert release.wait(30)

    with ThreadPoolExecutor(gates.MOST_SLOW) as pool:
        waiting = [pool.submit(transactions.run, silent, hold) for _ in range(gates.MOST_SLOW)]
        for _ in waiting:
            assert holding.acquire(timeout=30)
        refused = False
        started = monotonic()
        while not refused and monotonic() - started < 10:
            try:
                transactions.run(silent, lambda _: None)
            except ShardUnavailableError as error:
                refused = silent.name in str(error)
        assert refused
        assert transactions.run(other, lambda _: "answered") == "answered"
        release.set()
        for each in waiting:
            each.result(30)
    assert transactions.run(silent, lambda _: "answered") == "answered"
