"""Idempotency keys: one effect for one key, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection
from starlette.testclient import TestClient

from api.conftest import TASK, Api, problem
from tocsin.settings import Settings
from tocsin.store import idempotency
from tocsin.store.shards import connect, engine_for
from tocsin_api.app import create_app

BODY = {"name": "nightly", "task": TASK, "schedule": "@hourly"}
KEY = {"idempotency-key": "b1c5"}


def test_the_same_request_twice_is_one_job(api: Api) -> None:
    first = api.http.post("/jobs", json=BODY, headers=KEY)
    again = api.http.post(
        "/v1/jobs", json=dict(reversed(BODY.items())), headers={"idempotency-key": '"b1c5"'}
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.headers["etag"], again.headers["location"]) == (
        first.headers["etag"],
        first.headers["location"],
    )
    assert api.counts()["jobs"] == 1


def test_a_key_stands_for_one_body(api: Api) -> None:
    api.http.post("/jobs", json=BODY, headers=KEY)
    before = api.counts()
    problem(api.http.post("/jobs", json={**BODY, "name": "other"}, headers=KEY), 422, "key_reused")
    problem(api.http.post("/jobs", json={**BODY, "owner": "other"}, headers=KEY), 422, "key_reused")
    assert api.counts() == before


def test_a_key_is_for_one_path(api: Api) -> None:
    api.http.post("/jobs", json=BODY, headers=KEY)
    run = api.http.post("/jobs/name:nightly/runs", json={}, headers=KEY)
    assert run.status_code == 202
    again = api.http.post("/jobs/name:nightly/runs", headers=KEY)
    assert again.json()["runId"] == run.json()["runId"]
    assert api.counts()["runs"] == 1


def test_a_failure_is_not_stored(api: Api) -> None:
    api.job()
    problem(api.http.post("/jobs", json=BODY, headers=KEY), 409, "name_taken")
    assert api.counts()["idempotency_keys"] == 0
    api.http.delete("/jobs/name:nightly")
    assert api.http.post("/jobs", json=BODY, headers=KEY).status_code == 201


def test_a_key_in_flight_is_told_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[Any] = []
    finish = idempotency.finish

    def while_working(conn: Connection, *args: Any) -> None:
        inner.append(api.http.post("/jobs", json=BODY, headers=KEY))
        finish(conn, *args)

    monkeypatch.setattr(idempotency, "finish", while_working)
    assert api.http.post("/jobs", json=BODY, headers=KEY).status_code == 201
    problem(inner[0], 409, "key_in_flight")
    assert inner[0].headers["retry-after"] == "1"
    assert api.counts()["jobs"] == 1


def test_many_at_once_make_one_run(api: Api) -> None:
    api.job()
    with ThreadPoolExecutor(8) as pool:
        post: Callable[[int], Any] = lambda _: api.http.post("/jobs/name:nightly/runs", headers=KEY)  # noqa: E731
        answers = list(pool.map(post, range(16)))
    assert {a.status_code for a in answers} <= {202, 409}
    assert len({a.json()["runId"] for a in answers if a.status_code == 202}) == 1
    assert api.counts()["runs"] == 1


def test_an_old_key_is_free_again(api: Api) -> None:
    api.http.post("/jobs", json=BODY, headers=KEY)
    api.rows("UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' RETURNING 1")
    assert api.http.post("/jobs", json={**BODY, "name": "other"}, headers=KEY).status_code == 201
    with engine_for(api.url).begin() as conn:
        assert idempotency.purge(conn) == 1
    assert api.counts()["idempotency_keys"] == 2


def test_keys_hold_across_shards(new_database: Callable[..., str]) -> None:
    urls = [new_database(), new_database()]
    settings = Settings(database_url=f"0-511={urls[0]},512-1023={urls[1]}")
    with TestClient(create_app(settings)) as http:
        for n in range(12):
            key = {"idempotency-key": f"key-{n}"}
            first = http.post("/jobs", json={**BODY, "name": f"job-{n}"}, headers=key)
            assert http.post("/jobs", json={**BODY, "name": f"job-{n}"}, headers=key).content == first.content
            problem(http.post("/jobs", json={**BODY, "name": f"other-{n}"}, headers=key), 422, "key_reused")
        listed = [job["name"] for job in http.get("/jobs").json()["items"]]
        assert listed == [f"job-{n}" for n in reversed(range(12))]
    for url in urls:
        with connect(url) as db:
            jobs = db.execute("SELECT count(*) FROM jobs").fetchone()
            assert jobs is not None
            assert 0 < int(str(jobs[0])) < 12
        engine_for(url).dispose()
