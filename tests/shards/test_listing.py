"""The list of jobs over several shards: merged, paged, and never silently short."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from shards.names import in_shard
from support.databases import Databases
from support.shards import away
from tocsin.store.shards import connect

TASK = {"http": {"url": "http://127.0.0.1:1/"}}


def create(http: TestClient, *names: str) -> None:
    for name in names:
        answer = http.post("/jobs", json={"name": name, "task": TASK, "owner": "team"})
        assert answer.status_code == 201, answer.text


def pages(http: TestClient, **params: Any) -> list[list[str]]:
    """The names on each page, until there is no next one."""
    found: list[list[str]] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = http.get("/jobs", params={**params, **cursor})
        assert answer.status_code == 200, answer.text
        found.append([job["name"] for job in answer.json()["items"]])
        if answer.json()["nextCursor"] is None:
            return found
        cursor = {"cursor": answer.json()["nextCursor"]}


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_every_job_is_on_one_page_in_one_order(http: TestClient, limit: int) -> None:
    names = [f"job-{n}" for n in range(20)]
    create(http, *names)
    found = pages(http, limit=limit)
    assert [name for page in found for name in page] == names[::-1]
    assert all(len(page) == limit for page in found[:-1])


def test_jobs_of_one_millisecond_lose_nobody_at_a_page_s_end(http: TestClient, shard_urls: list[str]) -> None:
    """All have one creation time: only the rest of their IDs orders them, across both shards."""
    names = [*in_shard(0, 511, 6), *in_shard(512, 1023, 6)]
    create(http, *names)
    same = "01999999-9999-7"  # the first 52 bits of a version 7 UUID: one millisecond
    ids: dict[str, UUID] = {}
    for url in shard_urls:
        with connect(url) as db:
            db.execute(
                "UPDATE jobs SET job_id = (%s || substr(job_id::text, 16))::uuid",
                (same,),
            )
            ids |= dict(db.execute("SELECT name, job_id FROM jobs").fetchall())
    in_order = sorted(ids, key=lambda name: ids[name], reverse=True)
    assert in_order != names[::-1], "the shards must be interleaved for this to show anything"
    for limit in (1, 5, 12):
        assert [name for page in pages(http, limit=limit) for name in page] == in_order


def test_filters_hold_in_every_shard(http: TestClient) -> None:
    here, there = in_shard(0, 511, 2), in_shard(512, 1023, 2)
    create(http, *here, *there)
    http.post(f"/jobs/name:{here[0]}/pause", json={})
    http.post(f"/jobs/name:{there[0]}/pause", json={})
    assert pages(http, paused="true", limit=1) == [[there[0]], [here[0]]]


def test_a_list_without_a_shard_is_refused_or_says_what_is_missing(
    http: TestClient, databases: Databases, shard_urls: list[str]
) -> None:
    here, there = in_shard(0, 511, 2), in_shard(512, 1023, 2)
    create(http, *here, *there)
    with away(databases, shard_urls[1]):
        answer = http.get("/jobs")
        assert answer.status_code == 503
        assert answer.json()["code"] == "shard_unavailable"
        assert "512-1023" in answer.json()["detail"]
        assert "partial=true" in answer.json()["fix"]
        some = http.get("/jobs", params={"partial": "true"}).json()
        assert [job["name"] for job in some["items"]] == here[::-1]
        assert set(some["incomplete"]) == {"512-1023"}
    answer = http.get("/jobs", params={"partial": "true"})
    while answer.json()["incomplete"]:  # until the gate before the shard is tried again
        answer = http.get("/jobs", params={"partial": "true"})
    assert [job["name"] for job in answer.json()["items"]] == [*there[::-1], *here[::-1]]
    assert answer.json()["incomplete"] == {}
