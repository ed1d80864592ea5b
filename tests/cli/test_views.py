"""What people see, against golden files; the server's Date header fixes "now"."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .api_stub import ApiStub, problem
from .conftest import Cli
from .samples import job, run

Golden = Callable[[str, str], None]
JOB = "/jobs/name:nightly-close"
JOBS = [
    job(),
    job(name="sync", nextRunAt="2026-03-28T22:45:00Z", schedule="every 15m", owner="data", version=1),
    job(name="held", paused=True, pauseReason="vendor is down", nextRunAt=None),
    job(name="by-hand", schedule=None, nextRunAt=None, description="ünïcode 漢字"),
]
RUNS = [
    run(status="running", finishedAt=None, durationSec=None, httpStatus=None),
    run("2026-03-27T01:30:00Z"),
    run(
        "2026-03-26T01:30:00Z", status="failed", attempt=3, reason="http_status", httpStatus=503, durationSec=1.24
    ),
    run(
        "2026-03-25T01:30:00Z", status="skipped", reason="overlap", startedAt=None, latenessSec=None,
        durationSec=None, attempt=0, origin="manual", error="an earlier run\nwas still \x1b[31mgoing",
    ),
]  # fmt: skip


@pytest.fixture
def jobs(api: ApiStub) -> ApiStub:
    api.answer("GET", "/jobs", 200, {"items": JOBS, "nextCursor": None})
    return api


@pytest.mark.parametrize("mode", ["relative", "nominal", "utc", "iso"])
def test_jobs(mode: str, jobs: ApiStub, cli: Cli, golden: Golden) -> None:
    result = cli("job", "list", "--time", mode, api=jobs)
    assert (result.code, result.err) == (0, "")
    golden(f"jobs-{mode}", result.out)


@pytest.mark.parametrize("form", ["wide", "yaml", "name"])
def test_jobs_in_other_forms(form: str, jobs: ApiStub, cli: Cli, golden: Golden) -> None:
    golden(f"jobs-{form}", cli("job", "list", "-o", form, api=jobs).out)


def test_json_has_the_keys_of_the_api(jobs: ApiStub, cli: Cli) -> None:
    assert json.loads(cli("job", "list", "-o", "json", api=jobs).out) == JOBS
    lines = cli("job", "list", "-o", "jsonl", api=jobs).out.splitlines()
    assert [json.loads(line) for line in lines] == JOBS


@pytest.mark.parametrize("form", ["table", "wide", "name"])
def test_runs(form: str, api: ApiStub, cli: Cli, golden: Golden) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer("GET", f"{JOB}/runs", 200, {"items": RUNS, "nextCursor": None})
    golden(f"runs-{form}", cli("run", "list", "nightly-close", "-o", form, api=api).out)


def test_pages_are_followed_up_to_the_limit(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", f"{JOB}/runs", 200, {"items": RUNS[:2], "nextCursor": "c1"})
    api.answer("GET", f"{JOB}/runs", 200, {"items": RUNS[2:], "nextCursor": "c2"})
    out = cli("run", "list", "nightly-close", "-o", "name", "--limit", "3", api=api).out
    assert out.split() == [item["runId"] for item in RUNS[:3]]
    assert [request.query for request in api.sent("GET")] == ["limit=3", "limit=1&cursor=c1"]


def test_a_watched_retry(api: ApiStub, cli: Cli, golden: Golden) -> None:
    attempts = [{"attempt": 1, "reason": "http_status", "httpStatus": 503}]
    waiting = {"status": "scheduled", "attempts": attempts, "nextAttemptAt": "2026-03-28T22:30:05Z"}
    states = [
        run(status="queued"),
        run(status="running"),
        run(**waiting),
        run(status="running", attempt=2),
        run(attempt=2, attempts=attempts, durationSec=1.5),
    ]
    path = f"/runs/{run()['runId']}"
    for state in states:
        api.answer("GET", path, 200, state)
    api.answer("POST", f"{JOB}/runs", 202, states[0])
    api.answer("GET", f"/jobs/{run()['jobId']}", 200, job())
    result = cli("job", "run", "nightly-close", "--wait", api=api)
    assert result.code == 0
    golden("watch", result.err + "--- stdout\n" + result.out)


PROBLEMS = {
    "not-found": (404, problem("not_found", 'there is no job "nightly-close"', fix="list the jobs first")),
    "bare": (502, None),
    "one-field": (
        422,
        problem(
            "validation",
            "1 field needs fixing.",
            {
                "pointer": "#/schedule/cron",
                "detail": "hour 24 is out of range 0-23",
                "fix": "use 0 for midnight",
            },
        ),
    ),
    "two-fields": (
        422,
        problem(
            "validation",
            "2 fields need fixing.",
            {
                "pointer": "#/schedule/cron",
                "detail": "hour 24 is out of range 0-23",
                "fix": "use 0 for midnight",
            },
            {"pointer": "#/tier", "detail": "`fast` is not known", "fix": "write critical, default or batch"},
        ),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str, api: ApiStub, cli: Cli, golden: Golden) -> None:
    api.answer("GET", JOB, *PROBLEMS[name])
    result = cli("job", "get", "nightly-close", api=api)
    assert result.out == ""
    golden(f"problem-{name}", result.err.replace(api.url, "http://SERVER"))


EXPLAINED = {
    "gap": ["30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00:00Z"],
    "gap-skip": ["30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00:00Z", "--gap", "skip"],
    "fold": ["30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-23T12:00:00Z"],
    "fold-both": ["30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-23T12:00:00Z", "--fold", "both"],
    "half-hour": ["*/20 2 * * *", "--tz", "Australia/Lord_Howe", "--from", "2026-10-02T12:00:00Z"],
    "every": ["every 15m", "--from", "2026-03-27T12:00:00Z"],
    "once": ["at 2026-03-08T02:30:00Z", "--from", "2026-03-27T12:00:00Z"],
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explained_schedules(name: str, cli: Cli, golden: Golden) -> None:
    result = cli("schedule", "explain", *EXPLAINED[name], "--next", "3")
    assert (result.code, result.err) == (0, "")
    golden(f"explain-{name}", result.out)


@pytest.mark.parametrize("form", ["json", "yaml", "jsonl", "name"])
def test_explained_for_programs(form: str, cli: Cli, golden: Golden) -> None:
    golden(f"explain-{form}", cli("schedule", "explain", *EXPLAINED["gap"], "-o", form, "--next", "2").out)


def test_a_schedule_that_is_wrong(cli: Cli, golden: Golden) -> None:
    result = cli("schedule", "explain", "61 * * * *")
    assert result.code == 7
    golden("explain-wrong", result.err)
