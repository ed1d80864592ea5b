"""Runs over HTTP: start, read, list, cancel, repeat."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from api.conftest import Api, problem
from tocsin.clock import now
from tocsin.ids import parse_run_id


def start(api: Api, **body: Any) -> dict[str, Any]:
    answer = api.http.post("/jobs/name:nightly/runs", json=body)
    assert answer.status_code == 202, answer.text
    run: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/runs/{run['runId']}"
    return run


def test_a_manual_run_waits_with_a_trigger_that_is_due(api: Api) -> None:
    api.job()
    run = start(api)
    assert (run["status"], run["origin"], run["attempt"]) == ("scheduled", "manual", 0)
    key = parse_run_id(run["runId"])
    assert key is not None
    rows = api.rows(
        "SELECT job_id, scheduled_at, kind, attempt, limited, fire_at <= clock_timestamp() FROM triggers"
    )
    assert rows == [(key.job_id, key.scheduled_at, "run", 1, False, True)]
    assert run["nextAttemptAt"] is not None
    assert api.http.get(f"/runs/{run['runId']}").json() == run | {"output": None}


def test_a_nominal_time_has_one_run(api: Api) -> None:
    api.job()
    nominal = (now() - timedelta(hours=1)).isoformat()
    start(api, nominalTime=nominal)
    counts = api.counts()
    problem(api.http.post("/jobs/name:nightly/runs", json={"nominalTime": nominal}), 409, "run_exists")
    for bad in ("1969-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2001-01-01T00:00:00Z"):
        answer = api.http.post("/jobs/name:nightly/runs", json={"nominalTime": bad})
        problem(answer, 422, "validation", "#/nominalTime")
    assert api.counts() == counts


def test_a_run_of_a_day_without_a_partition_gets_one(api: Api) -> None:
    api.job()
    start(api, nominalTime=(now() - timedelta(days=20)).isoformat())
    assert len(api.http.get("/jobs/name:nightly/runs").json()["items"]) == 1


def test_cancel_ends_a_run_that_nobody_holds(api: Api) -> None:
    api.job()
    run = start(api)
    answer = api.http.post(f"/runs/{run['runId']}/cancel", json={"reason": "by mistake"})
    assert answer.status_code == 202
    assert answer.json()["status"] == "cancelled"
    assert answer.json()["error"] == "cancelled on request: by mistake"
    assert api.counts()["triggers"] == 0
    problem(api.http.post(f"/runs/{run['runId']}/cancel"), 409, "run_final")


def test_cancel_asks_the_worker_of_a_running_run(api: Api) -> None:
    api.job()
    run = start(api)
    api.db.execute("LISTEN tocsin_cancel")
    api.rows("DELETE FROM triggers RETURNING 1")
    api.rows(
        "UPDATE runs SET status = 'running', attempt = 1, attempt_started_at = clock_timestamp() RETURNING 1"
    )
    answer = api.http.post(f"/runs/{run['runId']}/cancel")
    assert (answer.status_code, answer.json()["status"], answer.json()["cancelRequested"]) == (
        202,
        "running",
        True,
    )
    assert [n.payload for n in api.db.notifies(timeout=5, stop_after=1)] == [run["runId"]]


def test_cancelling_a_limited_run_releases_the_one_that_waits(api: Api) -> None:
    api.job(concurrency="queue")
    first, second, third = start(api), start(api), start(api)
    api.rows("DELETE FROM triggers RETURNING 1")
    key = parse_run_id(first["runId"])
    assert key is not None
    api.rows("UPDATE runs SET status = 'waiting' RETURNING 1")
    api.rows(
        "UPDATE runs SET status = 'queued', attempt = 1 WHERE scheduled_at = %s RETURNING 1", key.scheduled_at
    )
    api.http.post(f"/runs/{first['runId']}/cancel")
    released = parse_run_id(second["runId"])
    assert released is not None
    rows = api.rows("SELECT scheduled_at, kind, attempt, limited FROM triggers")
    assert rows == [(released.scheduled_at, "run", 1, True)]
    assert api.http.get(f"/runs/{third['runId']}").json()["status"] == "waiting"


def test_a_final_run_can_be_repeated(api: Api) -> None:
    api.job()
    run = start(api)
    problem(api.http.post(f"/runs/{run['runId']}/retry"), 409, "run_not_final")
    api.http.post(f"/runs/{run['runId']}/cancel")
    answer = api.http.post(f"/runs/{run['runId']}/retry")
    assert answer.status_code == 202
    again = answer.json()
    assert (again["origin"], again["rerunOf"], again["status"]) == ("rerun", run["runId"], "scheduled")
    assert again["runId"] != run["runId"]


def test_history_is_newest_first_filtered_and_paged(api: Api) -> None:
    api.job()
    base = now().replace(microsecond=0) - timedelta(days=1)
    ids = [start(api, nominalTime=(base + timedelta(hours=n)).isoformat())["runId"] for n in range(7)]
    api.http.post(f"/runs/{ids[2]}/cancel")
    seen: list[str] = []
    url: str | None = "/jobs/name:nightly/runs?limit=3"
    while url:
        answer = api.http.get(url)
        seen += [run["runId"] for run in answer.json()["items"]]
        url = answer.links.get("next", {}).get("url")
    assert seen == ids[::-1]

    def listed(**params: str) -> list[str]:
        answer = api.http.get("/jobs/name:nightly/runs", params=params)
        assert answer.status_code == 200, answer.text
        return [run["runId"] for run in answer.json()["items"]]

    assert listed(status="cancelled,failed") == [ids[2]]
    assert listed(origin="schedule") == []
    start_at, end = (base + timedelta(hours=2)).isoformat(), (base + timedelta(hours=4)).isoformat()
    assert listed(**{"from": start_at, "to": end}) == [ids[3], ids[2]]
    problem(api.http.get("/jobs/name:nightly/runs?status=bogus"), 422, "validation", "?status/0")


def test_a_run_tells_its_attempts_and_its_output(api: Api) -> None:
    api.job()
    run = start(api)
    api.rows(
        "INSERT INTO attempts SELECT partition_id, job_id, scheduled_at, 1, clock_timestamp(), clock_timestamp(),"
        " 'w1', 503, 'http_status', 'busy' FROM runs RETURNING 1"
    )
    api.rows(
        "UPDATE runs SET status = 'succeeded', attempt = 2, http_status = 200, lease_owner = 'w2',"
        " started_at = scheduled_at + interval '1500 ms', attempt_started_at = scheduled_at + interval '3 s',"
        " finished_at = scheduled_at + interval '4 s' RETURNING 1"
    )
    api.rows(
        "INSERT INTO run_outputs SELECT partition_id, job_id, scheduled_at, 2, 'text/plain', 9, true, %s"
        " FROM runs RETURNING 1",
        "grün".encode()[:3],
    )
    told = api.http.get(f"/runs/{run['runId']}").json()
    assert [(a["attempt"], a["worker"], a["httpStatus"]) for a in told["attempts"]] == [
        (1, "w1", 503),
        (2, "w2", 200),
    ]
    assert (told["latenessSec"], told["durationSec"]) == (1.5, 2.5)
    assert told["output"] == {"contentType": "text/plain", "size": 9, "truncated": True, "text": "gr"}
    assert api.http.get(f"/runs/{run['runId']}?waitSec=30").json() == told


def test_a_run_past_retention_is_gone(api: Api) -> None:
    job = api.job()
    old = f"run_{job['jobId'].removeprefix('job_')}{1_000_000_000_000_000:014x}"
    problem(api.http.get(f"/runs/{old}"), 410, "gone")
    problem(api.http.get("/runs/run_1"), 404, "not_found")
