"""The API refuses a job whose URL says by itself that no worker may call it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from api.conftest import problem
from tasks.spellings import REFUSED
from tocsin.settings import Settings
from tocsin.store.shards import engine_for
from tocsin_api.app import create_app


@pytest.fixture
def http(database_url: str) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(database_url=database_url, http_allow="10.20.0.0/16"))) as client:
        yield client
    engine_for(database_url).dispose()


def body(url: str, name: str = "nightly") -> dict[str, object]:
    return {"name": name, "task": {"http": {"url": url}}}


@pytest.mark.parametrize("host", REFUSED[::7])
def test_a_refused_target_is_a_problem_with_a_pointer_and_a_fix(http: TestClient, host: str) -> None:
    answer = http.post("/jobs", json=body(f"http://{host}:8080/"))
    problem(answer, 422, "validation", "#/task/http/url")
    assert http.get("/jobs").json()["items"] == []


def test_public_targets_names_and_what_the_operator_opens_are_accepted(http: TestClient) -> None:
    for number, host in enumerate(("8.8.8.8", "10.20.255.1", "billing.internal", "[2606:4700::1111]")):
        assert http.post("/jobs", json=body(f"http://{host}/", f"job-{number}")).status_code == 201


def test_a_patch_may_not_lead_there_either(http: TestClient) -> None:
    assert http.post("/jobs", json=body("http://10.20.0.1/")).status_code == 201
    answer = http.patch("/jobs/name:nightly", json={"task": {"http": {"url": "http://10.21.0.1/"}}})
    problem(answer, 422, "validation", "#/task/http/url")
    assert http.get("/jobs/name:nightly").json()["task"]["http"]["url"] == "http://10.20.0.1/"


def test_other_edits_go_on_when_the_policy_has_become_narrower(http: TestClient, database_url: str) -> None:
    http.post("/jobs", json=body("http://10.20.0.1/"))
    with TestClient(create_app(Settings(database_url=database_url, http_allow=""))) as narrower:
        assert narrower.patch("/jobs/name:nightly", json={"description": "x"}).status_code == 200
        answer = narrower.patch("/jobs/name:nightly", json={"task": {"http": {"method": "GET"}}})
        problem(answer, 422, "validation", "#/task/http/url")
