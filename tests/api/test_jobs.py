"""Jobs over HTTP: create, read, change, pause, delete, list."""

from __future__ import annotations

from typing import Any

from api.conftest import TASK, Api, problem
from tocsin.ids import parse_job_id, partition_of


def test_a_created_job_comes_back_canonical_with_its_trigger(api: Api) -> None:
    answer = api.http.post(
        "/jobs",
        json={
            "name": "close",
            "schedule": "30 2 * * *",
            "timeout": "20m",
            "task": TASK,
            "concurrency": "skip",
        },
    )
    assert answer.status_code == 201
    body = answer.json()
    assert body["timeoutSec"] == 1200
    assert body["concurrency"] == {"overlap": "skip", "max": 1, "queueLimit": 100}
    assert body["schedule"]["cron"] == "30 2 * * *"
    assert body["version"] == 1
    assert answer.headers["etag"] == '"1"'
    assert api.http.get(answer.headers["location"]).json() == body
    job_id = parse_job_id(body["jobId"])
    assert job_id is not None
    rows = api.rows(
        "SELECT partition_id, job_id, kind, job_version, limited, fire_at = scheduled_at FROM triggers"
    )
    assert rows == [(partition_of(job_id), job_id, "schedule", 1, True, True)]
    assert body["nextRunAt"].endswith("T02:30:00.000000Z")


def test_a_job_is_found_by_name_and_under_v1(api: Api) -> None:
    body = api.job()
    assert api.http.get("/jobs/name:nightly").json() == body
    assert api.http.get(f"/v1/jobs/{body['jobId']}").json() == body


def test_a_job_document_survives_its_own_round_trip(api: Api) -> None:
    body = api.job(schedule="@hourly", labels={"team": "billing"}, retryPolicy={"max": "5m"})
    known = {"jobId", "version", "createdAt", "updatedAt", "nextRunAt", "pauseReason"}
    document = {key: value for key, value in body.items() if key not in known}
    answer = api.http.patch(f"/jobs/{body['jobId']}", json=document)
    assert answer.status_code == 200
    assert answer.json() == body


def test_by_hand_and_paused_jobs_have_no_trigger(api: Api) -> None:
    api.job("by-hand")
    api.job("paused", schedule="@hourly", paused=True)
    assert api.counts()["triggers"] == 0


def test_a_patch_merges_and_takes_the_other_spelling(api: Api) -> None:
    body = api.job(schedule={"every": "15m"}, description="x", labels={"a": "1", "b": "2"})
    answer = api.http.patch(
        "/jobs/name:nightly",
        json={
            "timeout": "20m",
            "schedule": {"cron": "0 3 * * *"},
            "description": None,
            "labels": {"a": None},
        },
        headers={"content-type": "application/merge-patch+json", "if-match": '"1"'},
    )
    changed = answer.json()
    assert answer.status_code == 200, changed
    assert answer.headers["etag"] == '"2"'
    assert changed["timeoutSec"] == 1200
    assert changed["schedule"]["cron"] == "0 3 * * *"
    assert changed["description"] == ""
    assert changed["labels"] == {"b": "2"}
    assert changed["nextRunAt"] != body["nextRunAt"]
    assert api.rows("SELECT job_version FROM triggers") == [(2,)]


def test_an_edit_beside_the_schedule_keeps_the_nominal_time(api: Api) -> None:
    body = api.job(schedule={"every": "15m"})
    changed = api.http.patch("/jobs/name:nightly", json={"owner": "billing", "concurrency": "skip"}).json()
    assert changed["nextRunAt"] == body["nextRunAt"]
    assert api.rows("SELECT job_version, limited FROM triggers") == [(2, True)]


def test_an_unchanged_document_writes_nothing(api: Api) -> None:
    body = api.job(schedule="@hourly")
    before = api.rows("SELECT xmin::text, version FROM jobs")
    assert api.http.patch("/jobs/name:nightly", json={"owner": "default"}).json() == body
    assert api.rows("SELECT xmin::text, version FROM jobs") == before


def test_pause_and_resume_are_idempotent(api: Api) -> None:
    api.job(schedule="@hourly")
    paused = api.http.post("/jobs/name:nightly/pause", json={"reason": "migration"}).json()
    assert (paused["paused"], paused["pauseReason"], paused["version"]) == (True, "migration", 2)
    assert paused["nextRunAt"] is None
    assert api.counts()["triggers"] == 0
    assert api.http.post("/jobs/name:nightly/pause", json={"reason": "again"}).json() == paused
    resumed = api.http.post("/jobs/name:nightly/resume").json()
    assert (resumed["paused"], resumed["pauseReason"], resumed["version"]) == (False, None, 3)
    assert resumed["nextRunAt"] is not None
    assert api.counts()["triggers"] == 1


def test_delete_leaves_a_tombstone_and_frees_the_name(api: Api) -> None:
    body = api.job(schedule="@hourly")
    assert api.http.delete(f"/jobs/{body['jobId']}").status_code == 204
    assert api.http.delete(f"/jobs/{body['jobId']}").status_code == 204
    assert api.http.delete("/jobs/name:nightly").status_code == 204
    assert api.counts()["triggers"] == 0
    problem(api.http.get(f"/jobs/{body['jobId']}"), 404, "not_found")
    problem(api.http.delete("/jobs/name:other"), 404, "not_found")
    assert api.http.get(f"/jobs/{body['jobId']}/runs").json()["items"] == []
    api.job(schedule="@hourly")


def test_delete_can_cancel_what_is_live(api: Api) -> None:
    body = api.job(concurrency="queue")
    run = api.http.post(f"/jobs/{body['jobId']}/runs").json()
    assert api.http.delete(f"/jobs/{body['jobId']}?runs=cancel").status_code == 204
    assert api.counts()["triggers"] == 0
    ended = api.http.get(f"/runs/{run['runId']}").json()
    assert (ended["status"], ended["reason"]) == ("cancelled", "job_deleted")


def test_lists_are_newest_first_filtered_and_paged(api: Api) -> None:
    for n in range(7):
        api.job(f"job-{n}", owner="a" if n % 2 else "b", labels={"team": "x", "n": str(n)}, paused=n == 3)
    seen: list[str] = []
    url: str | None = "/jobs?limit=3"
    while url:
        answer = api.http.get(url)
        seen += [job["name"] for job in answer.json()["items"]]
        link: dict[str, Any] = answer.links.get("next", {})
        url = link.get("url")
    assert seen == [f"job-{n}" for n in reversed(range(7))]
    names = lambda query: [job["name"] for job in api.http.get(f"/jobs?{query}").json()["items"]]  # noqa: E731
    assert names("owner=a") == ["job-5", "job-3", "job-1"]
    assert names("label=team=x&label=n=4") == ["job-4"]
    assert names("paused=true") == ["job-3"]
    assert names("name=job-*") == seen
    assert names("name=job_5") == []
    assert len(names("limit=5000")) == 7


def test_a_cursor_goes_with_its_filters(api: Api) -> None:
    for n in range(3):
        api.job(f"job-{n}")
    cursor = api.http.get("/jobs?limit=1").json()["nextCursor"]
    problem(api.http.get(f"/jobs?owner=x&cursor={cursor}"), 400, "bad_cursor")
    problem(api.http.get(f"/jobs?cursor={cursor[:-2]}"), 400, "bad_cursor")
    problem(api.http.get("/jobs?cursor=%C3%A4"), 400, "bad_cursor")
    assert api.http.get(f"/jobs?limit=2&cursor={cursor}").json()["nextCursor"] is None


def test_a_get_can_be_told_what_is_known(api: Api) -> None:
    api.job()
    assert api.http.get("/jobs/name:nightly", headers={"if-none-match": '"1"'}).status_code == 304
    assert api.http.get("/jobs/name:nightly", headers={"if-none-match": '"2"'}).status_code == 200


def test_a_dry_run_checks_everything_and_writes_nothing(api: Api) -> None:
    kept = api.job(schedule="@hourly")
    before = api.counts()
    new = {"name": "new", "schedule": "@daily", "task": TASK}
    made = api.http.post("/jobs?dryRun=true", json=new, headers={"idempotency-key": "k"})
    assert (made.status_code, made.json()["name"], made.json()["version"]) == (200, "new", 1)
    changed = api.http.patch(
        "/jobs/name:nightly?dryRun=true", json={"timeout": "20m"}, headers={"if-match": '"1"'}
    )
    assert (changed.status_code, changed.json()["timeoutSec"], changed.json()["version"]) == (200, 1200, 2)
    problem(api.http.post("/jobs?dryRun=true", json={**new, "name": "nightly"}), 409, "name_taken")
    ended = {"schedule": {"every": "1h", "end": "2020-01-01T00:00:00Z"}}
    problem(api.http.post("/jobs?dryRun=true", json={**new, **ended}), 422, "validation")
    problem(api.http.patch("/jobs/name:nightly?dryRun=true", json=ended), 422, "validation")
    stale = api.http.patch("/jobs/name:nightly?dryRun=true", json={"owner": "x"}, headers={"if-match": '"9"'})
    problem(stale, 412, "stale_version")
    assert api.counts() == before
    assert api.http.get("/jobs/name:nightly").json() == kept
    assert api.http.post("/jobs", json=new, headers={"idempotency-key": "k"}).status_code == 201
