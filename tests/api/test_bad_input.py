"""Bad input: the right problem document each time, and nothing written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.conftest import TASK, Api, problem
from tocsin_api.problem_types import TYPES

GOOD: dict[str, Any] = {"name": "other", "task": TASK}
HTTP = {"url": "http://h/"}
JSON = {"content-type": "application/json"}

INVALID = [
    ({"nme": "x"}, "#/nme", "unknown_field"),
    ({"retryPolcy": {}}, "#/retryPolcy", "unknown_field"),
    ({"retryPolicy": {"maxAttemts": 2}}, "#/retryPolicy/maxAttemts", "unknown_field"),
    ({"name": None}, "#/name", None),
    ({"name": "-x"}, "#/name", "string_pattern_mismatch"),
    ({"name": "a" * 200}, "#/name", "string_pattern_mismatch"),
    ({"name": "x\n"}, "#/name", "string_pattern_mismatch"),
    ({"schedule": "61 * * * *"}, "#/schedule", None),
    ({"schedule": {"cron": "0 24 * * *"}}, "#/schedule/cron", None),
    ({"schedule": {"cron": "0 2 * * *", "timeZone": "Mars/Base"}}, "#/schedule/timeZone", None),
    ({"schedule": {"cron": "0 2 * * *", "timezone": "UTC"}}, "#/schedule/timezone", "unknown_field"),
    ({"schedule": {"cron": "0 2 * * *", "every": "5m"}}, "#/schedule", "schedule_kind"),
    ({"schedule": {"every": "0s"}}, "#/schedule/every", None),
    ({"schedule": 7}, "#/schedule", "invalid_type"),
    ({"schedule": {"at": "2020-01-01T00:00:00"}}, "#/schedule/at", "instant_naive"),
    ({"schedule": {"cron": "@daily", "end": "2020-01-01T00:00:00Z"}}, "#/schedule/end", "schedule_never_fires"),
    ({"schedule": {"at": "1960-01-01T00:00:00Z"}}, "#/schedule/at", "schedule_never_fires"),
    ({"schedule": {"at": "2020-01-01T00:00:00Z"}}, "#/schedule/at", "schedule_never_fires"),
    ({"schedule": {"at": "2020-01-01T00:00:00Z"}, "catchUp": "all"}, "#/schedule/at", "schedule_never_fires"),
    ({"schedule": {"at": "2020-01-01T00:00:00Z"}, "paused": True}, "#/schedule/at", "schedule_never_fires"),
    ({"paused": "yes"}, "#/paused", "bool_type"),
    ({"paused": 1}, "#/paused", "bool_type"),
    ({"timeoutSec": "5"}, "#/timeoutSec", "float_type"),
    ({"timeoutSec": True}, "#/timeoutSec", "float_type"),
    ({"retryPolicy": {"maxAttempts": "3"}}, "#/retryPolicy/maxAttempts", "int_type"),
    ({"retryPolicy": {"noRetryOn": [99999]}}, "#/retryPolicy/noRetryOn/0", "less_than_equal"),
    ({"retryPolicy": {"retryOn": [404], "noRetryOn": [404]}}, "#/retryPolicy/noRetryOn", "retry_contradiction"),
    ({"retryPolicy": {"initial": "1h", "max": "1s"}}, "#/retryPolicy/max", "retry_backoff"),
    ({"name": "job_" + "0" * 32}, "#/name", "name_like_id"),
    ({"name": "run_" + "0" * 46}, "#/name", "name_like_id"),
    ({"timeout": "-5s"}, "#/timeout", "duration_syntax"),
    ({"timeout": "0s"}, "#/timeout", "greater_than"),
    ({"timeoutSec": -5}, "#/timeoutSec", "greater_than"),
    ({"timeoutSec": "NaN"}, "#/timeoutSec", None),
    ({"timeout": "5m", "timeoutSec": 300}, "#/timeout", "duration_twice"),
    ({"timeout": 300}, "#/timeout", "invalid_type"),
    ({"retryPolicy": {"max": "90h"}}, "#/retryPolicy/max", "less_than_equal"),
    ({"retryPolicy": 3}, "#/retryPolicy", None),
    ({"retryPolicy": {"retryOn": [1, "x"]}}, "#/retryPolicy/retryOn/1", None),
    ({"concurrency": "sometimes"}, "#/concurrency", None),
    ({"concurrency": {"max": 0}}, "#/concurrency/max", "greater_than_equal"),
    ({"catchUp": {"mode": "lates"}}, "#/catchUp/mode", None),
    ({"tier": "gold"}, "#/tier", None),
    ({"pool": "9"}, "#/pool", None),
    ({"labels": {"": "x"}}, "#/labels", "label_size"),
    ({"labels": {"a": 1}}, "#/labels/a", "string_type"),
    ({"labels": {"a/b~c": 1}}, "#/labels/a~1b~0c", "string_type"),
    ({"task": {}}, "#/task", "task_kind"),
    ({"task": {"http": {}}}, "#/task/http/url", "missing"),
    ({"task": {"docker": {}}}, "#/task/docker/image", "missing"),
    ({"task": {"http": {"url": "ftp://h/"}}}, "#/task/http/url", "http_url"),
    ({"task": {"http": {"url": "http://a:b@h/"}}}, "#/task/http/url", "http_url_credentials"),
    ({"task": {"http": {**HTTP, "headers": {"Host": "x"}}}}, "#/task/http/headers", "http_header_reserved"),
    ({"task": {"http": {**HTTP, "headers": {"Tocsin-signature": "x"}}}}, "#/task/http/headers", "http_header_reserved"),
    ({"task": {"http": {**HTTP, "expectStatus": 999}}}, "#/task/http/expectStatus", "http_expect_status"),
    ({"task": {"http": {**HTTP, "body": "x", "json": 1}}}, "#/task/http", "http_two_bodies"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "pointer", "code"), INVALID, ids=[f"{n}-{c[1]}" for n, c in enumerate(INVALID)]
)
def test_an_invalid_document_names_the_field(
    shared: Api, change: dict[str, Any], pointer: str, code: str | None
) -> None:
    before = shared.counts()
    answers = [
        shared.http.post("/jobs", json={**GOOD, **change}),
        shared.http.patch("/jobs/name:nightly", json=change),
    ]
    for answer in answers[: 1 if pointer in ONLY_NEW else 2]:
        errors = problem(answer, 422, "validation", pointer)["errors"]
        assert code is None or code in [e["code"] for e in errors], errors
    assert shared.counts() == before


# A patch merges these into what is there, or deletes by null.
ONLY_NEW = ("#/schedule/at", "#/task", "#/task/http/url", "#/task/docker/image")


@pytest.fixture(scope="module")
def shared(databases: Any, template_database: str) -> Any:
    """One database for the whole table: every test leaves it as it was."""
    from starlette.testclient import TestClient

    from tocsin.settings import Settings
    from tocsin.store.shards import connect, engine_for
    from tocsin_api.app import create_app

    name = databases.create(template=template_database)
    url = databases.server.url_of(name)
    with TestClient(create_app(Settings(database_url=url, body_limit=4096))) as http, connect(url) as db:
        api = Api(http, db)
        api.job(schedule="@hourly")
        yield api
    engine_for(url).dispose()
    databases.drop(name)


REFUSED = [
    ("POST", "/jobs", b"{", JSON, 400, "invalid_json"),
    ("POST", "/jobs", b"", JSON, 422, "validation"),
    ("POST", "/jobs", b"[]", JSON, 422, "validation"),
    ("POST", "/jobs", b"null", JSON, 422, "validation"),
    ("POST", "/jobs", b"\xff\xfe", JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"name": NaN}', JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"timeoutSec": 1e999}', JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"timeoutSec": ' + b"9" * 1000 + b"}", JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"name": "a", "name": "b"}', JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"name": "a\\u0000"}', JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"labels": {"\\ud800": "b"}}', JSON, 400, "invalid_json"),
    ("POST", "/jobs", b"[" * 2000, JSON, 400, "invalid_json"),
    ("POST", "/jobs", b'{"a":' * 70 + b"1" + b"}" * 70, JSON, 400, "invalid_json"),
    ("POST", "/jobs", b"[" * 4000 + b"]" * 90, JSON, 400, "invalid_json"),
    ("POST", "/jobs", b" " * 5000, JSON, 413, "payload_too_large"),
    ("POST", "/jobs", b"name=x", {"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
    ("POST", "/jobs", b"{}", {"content-type": "application/json; charset=latin-1"}, 415, "unsupported_media_type"),
    ("POST", "/jobs", b"{}", {**JSON, "content-encoding": "gzip"}, 415, "unsupported_media_type"),
    ("POST", "/jobs", b"{}", {}, 415, "unsupported_media_type"),
    ("POST", "/jobs", b"{}", {"content-type": "application/merge-patch+json"}, 415, "unsupported_media_type"),
    ("PATCH", "/jobs/name:nightly", b"[]", JSON, 422, "validation"),
    ("PATCH", "/jobs/name:nightly", b"", JSON, 422, "validation"),
    ("PATCH", "/jobs/name:nightly", b'{"name": "x"}', JSON, 422, "validation"),
    ("PATCH", "/jobs/name:nightly", b'{"schedule": {"at": "2020-01-01T00:00:00Z"}}', JSON, 422, "validation"),
    ("PATCH", "/jobs/name:nightly", b'{"owner": "x"}', {**JSON, "if-match": '"9"'}, 412, "stale_version"),
    ("PATCH", "/jobs/name:nightly", b'{"owner": "x"}', {**JSON, "if-match": 'W/"1"'}, 412, "stale_version"),
    ("PATCH", "/jobs/name:nightly", b'{"owner": "x"}', {**JSON, "if-match": "one"}, 400, "bad_header"),
    ("DELETE", "/jobs/name:nightly", b"", {"if-match": '"9"'}, 412, "stale_version"),
    ("DELETE", "/jobs/name:nightly?runs=all", b"", {}, 422, "validation"),
    ("DELETE", "/jobs/name:nightly?force=1", b"", {}, 422, "validation"),
    ("POST", "/jobs/name:nightly/pause", b'{"reason": 1}', JSON, 422, "validation"),
    ("POST", "/jobs/name:nightly/pause", b'{"why": "x"}', JSON, 422, "validation"),
    ("POST", "/jobs/name:nightly/pause", b"", {"if-match": '"9"'}, 412, "stale_version"),
    ("POST", "/jobs/name:nightly/runs", b'{"nominalTime": "yesterday"}', JSON, 422, "validation"),
    ("POST", "/jobs/name:nightly/runs", b'{"nominalTime": "2026-01-01T00:00:00"}', JSON, 422, "validation"),
    ("POST", "/jobs/name:nightly/runs", b'{"nominalTime": 1767225600}', JSON, 422, "validation"),
    ("POST", "/schedules/preview", b'{"schedule": "@daily", "count": "3"}', JSON, 422, "validation"),
    ("POST", "/jobs/name:nope/runs", b"", {}, 404, "not_found"),
    ("GET", "/jobs/name:nope", b"", {}, 404, "not_found"),
    ("GET", "/jobs/job_1", b"", {}, 404, "not_found"),
    ("GET", "/jobs/name:%00", b"", {}, 404, "not_found"),
    ("GET", "/jobs/name:%ff%fe", b"", {}, 404, "not_found"),
    ("GET", "/jobs?owner=%00", b"", {}, 400, "invalid_json"),
    ("GET", "/jobs?limit=0", b"", {}, 422, "validation"),
    ("GET", "/jobs?limit=x", b"", {}, 422, "validation"),
    ("GET", "/jobs?label=team", b"", {}, 422, "validation"),
    ("GET", "/jobs?nmae=x", b"", {}, 422, "validation"),
    ("GET", "/jobs/name:nightly/runs?from=x", b"", {}, 422, "validation"),
    ("GET", "/runs/run_" + "f" * 46, b"", {}, 404, "not_found"),
    ("POST", "/runs/run_" + "0" * 46 + "/cancel", b"", {}, 410, "gone"),
    ("POST", "/schedules/preview", b"{}", JSON, 422, "validation"),
    ("POST", "/schedules/preview", b'{"schedule": "x"}', JSON, 422, "validation"),
    ("POST", "/schedules/preview", b'{"schedule": "@daily", "count": 1001}', JSON, 422, "validation"),
    ("GET", "/nowhere", b"", {}, 404, "not_found"),
    ("GET", "/v1/jobs/", b"", {}, 404, "not_found"),
    ("PUT", "/jobs", b"", {}, 405, "method_not_allowed"),
    ("DELETE", "/v1/runs/run_1", b"", {}, 405, "method_not_allowed"),
    ("POST", "/jobs", b"{}", {**JSON, "idempotency-key": "x" * 256}, 422, "validation"),
    ("POST", "/jobs", json.dumps(GOOD).encode(), {**JSON, "idempotency-key": "x" * 256}, 400, "bad_header"),
    ("POST", "/jobs", json.dumps(GOOD).encode(), {**JSON, "idempotency-key": ""}, 400, "bad_header"),
    ("POST", "/jobs", json.dumps({**GOOD, "name": "nightly"}).encode(), JSON, 409, "name_taken"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    REFUSED,
    ids=[f"{n}-{r[5]}" for n, r in enumerate(REFUSED)],
)
def test_a_bad_request_is_refused(
    shared: Api, method: str, path: str, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    before = shared.counts()
    answer = shared.http.request(method, path, content=body, headers=headers)
    problem(answer, status, code)
    assert shared.counts() == before


def test_refusals_say_what_helps(shared: Api) -> None:
    stale = shared.http.patch("/jobs/name:nightly", json={}, headers={"if-match": '"9"'})
    assert stale.headers["etag"] == '"1"'
    assert "POST" in shared.http.put("/jobs").headers["allow"]
    too_large = shared.http.post("/jobs", content=(b" " for _ in range(5000)), headers=JSON)
    assert "4096" in problem(too_large, 413, "payload_too_large")["fix"]
    unknown = shared.http.post("/jobs", json={**GOOD, "retryPolcy": {}})
    assert problem(unknown, 422, "validation")["errors"][0]["fix"] == "write retryPolicy instead"


def test_several_problems_come_in_one_answer(shared: Api) -> None:
    answer = shared.http.post("/jobs", json={"schedule": "x", "timeout": "1s", "owner": ""})
    pointers = {e["pointer"] for e in problem(answer, 422, "validation")["errors"]}
    assert pointers == {"#/name", "#/schedule", "#/task", "#/owner"}


def test_every_kind_of_problem_is_explained(shared: Api) -> None:
    for code, kind in TYPES.items():
        told = shared.http.get(f"/problems/{code}").json()
        assert (told["code"], told["status"]) == (code, kind.status)
        assert told["fix"]


@pytest.mark.parametrize(
    ("change", "fix"),
    [
        ({"timeout": "25h"}, "write 24h or less"),
        ({"timeoutSec": 90_000}, "write 86400 or less"),
        ({"timeout": "0s"}, "write a value greater than 0s"),
        ({"catchUp": {"window": "1s"}}, "write 10s or more"),
        ({"version": 3}, "remove version; the server gives it"),
        ({"apiversion": "tocsin/v1"}, "write apiVersion instead"),
        ({"retryPolicy": {"initial": "1h", "max": "1s"}}, "write a max that is at least initial"),
    ],
)
def test_a_fix_is_in_the_words_of_the_document(shared: Api, change: dict[str, Any], fix: str) -> None:
    answer = problem(shared.http.post("/jobs", json={**GOOD, **change}), 422, "validation")
    assert [error["fix"] for error in answer["errors"]] == [fix]


def test_a_charset_is_named_as_what_is_wrong(shared: Api) -> None:
    answer = shared.http.post(
        "/jobs", content=b"{}", headers={"content-type": "application/json; charset=latin-1"}
    )
    assert "latin-1" in problem(answer, 415, "unsupported_media_type")["detail"]
