"""What the command line sends: keys, versions, patches, and nothing that is not needed."""

from __future__ import annotations

from .api_stub import ApiStub
from .conftest import Cli
from .samples import JOB_ID, job, run

JOB = "/jobs/name:nightly-close"


def test_every_post_has_a_key_of_its_own(api: ApiStub, cli: Cli) -> None:
    api.answer("POST", f"{JOB}/pause", 200, job(paused=True))
    for _ in range(2):
        assert cli("job", "pause", "nightly-close", "--reason", "audit", api=api).code == 0
    keys = [request.headers["idempotency-key"] for request in api.sent("POST")]
    assert len(set(keys)) == 2
    assert api.sent("POST")[0].body == {"reason": "audit"}


def test_a_lost_answer_is_asked_for_once_more_under_the_same_key(api: ApiStub, cli: Cli) -> None:
    api.answer("POST", f"{JOB}/runs", 202, "drop")
    api.answer("POST", f"{JOB}/runs", 202, run(status="queued"))
    assert cli("job", "run", "nightly-close", "-o", "name", api=api).code == 0
    first, second = api.sent("POST")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_create_from_flags(api: ApiStub, cli: Cli) -> None:
    api.answer("POST", "/jobs", 201, {"jobId": JOB_ID})
    api.answer("GET", JOB, 200, job())
    result = cli(
        "job", "create", "nightly-close", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--url",
        "https://billing.internal/close", "--method", "put", "--header", "X-A: b:c", "--json", '{"a": 1}',
        "--owner", "billing", "--label", "team=billing", "--timeout", "20m", "--max-attempts", "5",
        "--overlap", "skip", "--tier", "critical", "--pool", "billing", "--description", "closes",
        "-o", "name", api=api,
    )  # fmt: skip
    assert (result.code, result.out) == (0, "nightly-close\n")
    body = api.sent("POST")[0].body
    assert body["task"]["http"] | {"expectStatus": None} == {
        "url": "https://billing.internal/close",
        "method": "PUT",
        "headers": {"X-A": "b:c"},
        "body": None,
        "json": {"a": 1},
        "expectStatus": None,
        "followRedirects": False,
        "maxRedirects": 5,
        "completion": "answer",
    }
    assert (body["timeoutSec"], body["retryPolicy"]["maxAttempts"]) == (1200, 5)
    assert (body["concurrency"]["overlap"], body["tier"], body["pool"]) == ("skip", "critical", "billing")
    assert body["schedule"]["timeZone"] == "Europe/Berlin"


def test_an_edit_sends_only_what_changed_and_names_the_version(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer("PATCH", f"/jobs/{JOB_ID}", 200, job())
    api.answer("GET", f"/jobs/{JOB_ID}", 200, job())
    assert cli("job", "edit", "nightly-close", "--every", "15m", "--timeout", "90s", api=api).code == 0
    (patch,) = api.sent("PATCH")
    assert patch.headers["if-match"] == '"7"'
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.body == {
        "schedule": {
            "cron": None, "gap": None, "fold": None, "everySec": 900, "anchor": "1970-01-01T00:00:00Z",
        },
        "timeoutSec": 90,
    }  # fmt: skip


def test_an_edit_that_changes_nothing_writes_nothing(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer("GET", f"/jobs/{JOB_ID}", 200, job())
    assert cli("job", "edit", "nightly-close", "--tz", "Europe/Berlin", api=api).code == 0
    assert [request.method for request in api.requests] == ["GET", "GET"]


def test_an_edit_of_a_stale_version_is_5(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer(
        "PATCH", f"/jobs/{JOB_ID}", 412, {"code": "stale_version", "detail": "the job is at version 8"}
    )
    assert cli("job", "edit", "nightly-close", "--tier", "batch", api=api).code == 5


def test_an_edit_without_flags_needs_a_terminal(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, 200, job())
    assert cli("job", "edit", "nightly-close", api=api).code == 2


def test_a_name_cannot_leave_its_path(api: ApiStub, cli: Cli) -> None:
    assert cli("job", "get", "a/../b?c#d", api=api).code == 3
    (request,) = api.requests
    assert (request.path, request.query) == ("/jobs/name:a/../b?c#d", "")  # one quoted segment on the wire


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(api: ApiStub) -> None:
    import os
    import subprocess
    import sys

    api.answer("GET", "/jobs", 200, {"items": [], "nextCursor": None})
    environment = {**os.environ, "HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    command = [sys.executable, "-m", "tocsin_cli", "job", "list", "--server", api.url]
    assert (
        subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False).returncode == 0
    )
