"""`POST /runs/{runId}/complete`: what a target may say, and that nothing but its token lets it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from api.conftest import Api, problem
from tocsin.callback_token import callback_token, lease_token, new_secret


def waiting(api: Api, name: str = "nightly", **job: Any) -> tuple[str, dict[str, str]]:
    """A run whose target was called, and the headers that the target was given."""
    run = api.http.post(f"/jobs/{api.job(name, **job)['jobId']}/runs").json()
    secret = new_secret()
    api.db.execute(
        "UPDATE runs SET status = 'running', attempt = 1, lease_owner = 'callback:w', lease_token = %s,"
        " attempt_started_at = clock_timestamp(), started_at = clock_timestamp(), http_status = 202,"
        " lease_expires_at = clock_timestamp() + interval '1 hour', deadline_at = clock_timestamp() + interval '1 hour'"
        " WHERE status = 'scheduled'",
        (lease_token(secret),),
    )
    api.db.execute("DELETE FROM triggers")
    return run["runId"], {"Tocsin-Callback-Token": callback_token(secret)}


def complete(api: Api, run: str, body: Any, headers: dict[str, str]) -> Any:
    return api.http.post(f"/v1/runs/{run}/complete", json=body, headers=headers)


def test_a_target_says_that_it_is_done(api: Api) -> None:
    run, headers = waiting(api)
    assert api.http.get(f"/runs/{run}").json()["status"] == "running"
    answer = complete(api, run, {"status": "succeeded", "output": {"rows": [1, "ü"]}}, headers)
    assert (answer.status_code, answer.content) == (204, b"")
    view = api.http.get(f"/runs/{run}").json()
    assert (view["status"], view["attempt"], view["httpStatus"]) == ("succeeded", 1, 202)
    assert view["output"]["text"] == '{"rows":[1,"ü"]}'
    assert view["output"]["contentType"] == "application/json"


def test_a_target_says_that_it_failed(api: Api) -> None:
    run, headers = waiting(api, retryPolicy={"maxAttempts": 1})
    body = {"status": "failed", "error": "no more disk", "output": "log", "contentType": "text/x-log"}
    assert complete(api, run, body, headers).status_code == 204
    view = api.http.get(f"/runs/{run}").json()
    assert (view["status"], view["reason"], view["error"]) == ("failed", "reported", "no more disk")
    assert (view["output"]["text"], view["output"]["contentType"]) == ("log", "text/x-log")


def test_a_failure_is_tried_again_unless_it_says_not_to(api: Api) -> None:
    for name, retry, status in (("a", True, "scheduled"), ("b", False, "failed")):
        run, headers = waiting(api, name)
        assert complete(api, run, {"status": "failed", "retry": retry}, headers).status_code == 204
        assert api.http.get(f"/runs/{run}").json()["status"] == status


def test_without_the_right_token_nothing_happens(api: Api) -> None:
    run, headers = waiting(api, "one")
    other, others = waiting(api, "two")
    absent = run[:-1] + ("0" if run[-1] != "0" else "1")
    good = headers["Tocsin-Callback-Token"]
    for target, given in (
        (run, {}),
        (run, {"Tocsin-Callback-Token": ""}),
        (run, {"Tocsin-Callback-Token": good[:-1]}),
        (run, {"Tocsin-Callback-Token": callback_token(new_secret())}),
        (run, {"Tocsin-Callback-Token": str(uuid4())}),
        (run, {"Authorization": f"Bearer {good}"}),
        (run, others),
        (absent, headers),
    ):
        problem(complete(api, target, {"status": "succeeded"}, given), 403, "bad_token")
    for one in (run, other):
        assert api.http.get(f"/runs/{one}").json()["status"] == "running"


def test_a_token_is_good_once(api: Api) -> None:
    run, headers = waiting(api)
    assert complete(api, run, {"status": "succeeded"}, headers).status_code == 204
    problem(complete(api, run, {"status": "failed"}, headers), 403, "bad_token")
    assert api.http.get(f"/runs/{run}").json()["status"] == "succeeded"


def test_with_a_key_the_same_callback_can_be_sent_again(api: Api) -> None:
    run, headers = waiting(api)
    headers["Idempotency-Key"] = "once"
    first, again = (complete(api, run, {"status": "succeeded"}, headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (204, 204)
    assert again.headers["idempotency-replayed"] == "true"
    problem(complete(api, run, {"status": "failed"}, headers), 422, "key_reused")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#/status"), ({"status": "done"}, "#/status"), ({"status": "failed", "error": "x" * 501}, "#/error"),
        ({"status": "succeeded", "outptu": 1}, "#/outptu"), ({"status": "failed", "retry": "maybe"}, "#/retry"),
    ],
)  # fmt: skip
def test_bad_input_names_the_field_and_uses_no_token(api: Api, body: Any, pointer: str) -> None:
    run, headers = waiting(api)
    problem(complete(api, run, body, headers), 422, "validation", pointer)
    assert complete(api, run, {"status": "succeeded"}, headers).status_code == 204


def test_a_long_output_keeps_both_ends(api: Api) -> None:
    run, headers = waiting(api)
    output = "a" * 200_000 + "b" * 200_000
    assert complete(api, run, {"status": "succeeded", "output": output}, headers).status_code == 204
    kept = api.http.get(f"/runs/{run}").json()["output"]
    assert (kept["size"], kept["truncated"]) == (400_000, True)
    assert kept["text"].startswith("a" * 131_072 + "\n[… 137856 bytes left out …]\n")
    assert kept["text"].endswith("b" * 131_072)


def test_a_cancel_ends_a_run_that_waits_at_once(api: Api) -> None:
    run, headers = waiting(api)
    assert api.http.post(f"/runs/{run}/cancel").json()["status"] == "cancelled"
    problem(complete(api, run, {"status": "succeeded"}, headers), 403, "bad_token")
