"""Whatever JSON comes in, the answer is not a failure of ours, and a refusal writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as budget
from hypothesis import strategies as st
from starlette.testclient import TestClient

from api.conftest import TASK, Api
from tocsin.settings import Settings
from tocsin.store.shards import connect, engine_for
from tocsin_api.app import create_app

_WORDS = st.sampled_from(
    [
        "",
        "5m",
        "-1s",
        "allow",
        "queue",
        "latest",
        "@daily",
        "0 2 * * *",
        "UTC",
        "x" * 300,
        "\0",
        "\ud800",
        "é\n",
    ]
)
_LEAF = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=20)
_KEYS = st.sampled_from(
    ["name", "owner", "schedule", "cron", "every", "everySec", "at", "timeZone", "start", "end", "jitter", "task",
     "http", "url", "headers", "json", "body", "expectStatus", "timeout", "timeoutSec", "retryPolicy", "maxAttempts",
     "retryOn", "initial", "concurrency", "max", "overlap", "catchUp", "mode", "window", "labels", "tier", "paused"]
) | st.text(max_size=8)  # fmt: skip
_JSON = st.recursive(
    _LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=15,
)
_FIELDS = st.dictionaries(_KEYS, _JSON, max_size=4)
_LIMITS = budget(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.fixture
def fuzzed(settings: Settings) -> Iterator[Api]:
    """Answers are looked at whole: an exception in the application is an answer of 500."""
    app = create_app(settings)
    with TestClient(app, raise_server_exceptions=False) as http, connect(settings.database_url) as db:
        made = Api(http, db)
        made.job(schedule="@hourly")
        yield made
    engine_for(settings.database_url).dispose()


def _send(api: Api, method: str, path: str, value: Any) -> None:
    before = api.rows("SELECT count(*), sum(version) FROM jobs"), api.rows("SELECT count(*) FROM triggers")
    text = json.dumps(value).encode()
    answer = api.http.request(method, path, content=text, headers={"content-type": "application/json"})
    assert answer.status_code < 500, (text, answer.text)
    if answer.status_code >= 400:
        body = answer.json()
        assert body["fix"]
        for error in body.get("errors", ()):
            assert error["fix"]
            assert error["pointer"].startswith("#")
        after = api.rows("SELECT count(*), sum(version) FROM jobs"), api.rows("SELECT count(*) FROM triggers")
        assert after == before
    elif isinstance(answer.json(), dict) and "jobId" in answer.json():
        assert api.http.get(f"/jobs/{answer.json()['jobId']}").status_code == 200


def test_creating_anything(fuzzed: Api) -> None:
    @_LIMITS
    @given(fields=_FIELDS, whole=st.booleans())
    def run(fields: dict[str, Any], whole: bool) -> None:
        _send(fuzzed, "POST", "/jobs", fields if whole else {"name": "f", "task": TASK, **fields})

    run()


def test_patching_anything(fuzzed: Api) -> None:
    @_LIMITS
    @given(value=_FIELDS | _JSON)
    def run(value: Any) -> None:
        _send(fuzzed, "PATCH", "/jobs/name:nightly", value)

    run()


def test_schedules_of_anything(fuzzed: Api) -> None:
    @_LIMITS
    @given(schedule=_FIELDS | _JSON, more=_FIELDS)
    def run(schedule: Any, more: dict[str, Any]) -> None:
        _send(fuzzed, "POST", "/schedules/preview", {"schedule": schedule, **more})
        _send(fuzzed, "PATCH", "/jobs/name:nightly", {"schedule": schedule})

    run()


def test_paths_and_queries_of_anything(fuzzed: Api) -> None:
    @_LIMITS
    @given(
        text=st.text(max_size=30),
        name=_KEYS | st.sampled_from(["limit", "cursor", "status", "from", "label"]),
    )
    def run(text: str, name: str) -> None:
        try:
            text.encode(), name.encode()
        except UnicodeEncodeError:
            return  # no URL can say this
        for path in ("/jobs", "/jobs/name:nightly/runs", "/runs/run_" + "0" * 46):
            answer = fuzzed.http.get(path, params={name: text})
            assert answer.status_code < 500, (path, name, text)

    run()
