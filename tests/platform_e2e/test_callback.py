"""A target that answers 202 and calls back later, with a worker that need not live so long."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from platform_e2e.platform import Platform
from support.receiver import Received, Receiver


def job(receiver: Receiver, **more: Any) -> dict[str, Any]:
    return {"task": {"http": {"url": f"{receiver.url}/status/202", "completion": "callback", **more}}}


def call_back(request: Received, body: dict[str, Any]) -> httpx.Response:
    """What the target does, with nothing but the headers of the call."""
    token = {"Tocsin-Callback-Token": request.headers["tocsin-callback-token"]}
    return httpx.post(request.headers["tocsin-callback-url"], json=body, headers=token)


def handed_over(platform: Platform, run: str) -> bool:
    view = platform.run(run)
    return view["status"] == "running" and view["attempts"][-1]["worker"].startswith("callback:")


@pytest.fixture
def env(platform: Platform) -> dict[str, str]:
    return {"TOCSIN_API_PUBLIC_URL": str(platform.client.base_url)}


def test_a_run_outlives_its_worker_and_ends_by_its_callback(
    platform: Platform, receiver: Receiver, env: dict[str, str]
) -> None:
    """The worker has one slot: runs that wait hold none. And it is killed while they wait."""
    platform.node()
    worker = platform.worker(TOCSIN_WORKER_SLOTS="1", **env)
    platform.create("later", "http://unused.example/", **job(receiver))
    runs = [platform.trigger("name:later") for _ in range(3)]
    requests = receiver.wait_for(count=3)
    for run in runs:
        platform.wait(lambda run=run: handed_over(platform, run))
    worker.kill()
    # Several leases long, as seen by the database: nobody takes the runs for lost.
    begun = platform.now()
    platform.wait(lambda: (platform.now() - begun).total_seconds() > 5)
    assert len(receiver.requests()) == 3
    bodies = [{"status": "succeeded", "output": "fine"}, {"status": "failed", "retry": False}, None]
    by_run = {request.key: request for request in requests}
    for run, body in zip(runs, bodies, strict=True):
        if body is not None:
            assert call_back(by_run[run], body).status_code == 204
            assert call_back(by_run[run], body).status_code == 403
    ended = [platform.run(run) for run in runs]
    assert [(run["status"], run["attempt"]) for run in ended] == [
        ("succeeded", 1),
        ("failed", 1),
        ("running", 1),
    ]
    assert ended[0]["output"]["text"] == "fine"
    assert platform.client.post(f"/runs/{runs[2]}/cancel").json()["status"] == "cancelled"
    assert call_back(by_run[runs[2]], {"status": "succeeded"}).status_code == 403


def test_silence_is_a_timeout_and_another_attempt_with_another_token(
    platform: Platform, receiver: Receiver, env: dict[str, str]
) -> None:
    platform.node()
    platform.worker(**env)
    platform.create(
        "silent", "http://unused.example/", **job(receiver), timeout="1s", retryPolicy={"maxAttempts": 2}
    )
    run = platform.trigger("name:silent")
    first, second = receiver.wait_for(count=2)
    assert [request.headers["tocsin-attempt"] for request in (first, second)] == ["1", "2"]
    assert first.headers["tocsin-callback-token"] != second.headers["tocsin-callback-token"]
    assert call_back(first, {"status": "succeeded"}).status_code == 403
    view = platform.wait_for_end(run)
    assert (view["status"], view["reason"], len(view["attempts"])) == ("failed", "timeout", 2)
    assert "did not call back" in view["error"]


def test_any_other_answer_is_the_end_as_ever(
    platform: Platform, receiver: Receiver, env: dict[str, str]
) -> None:
    platform.node()
    platform.worker(**env)
    platform.create("now", "http://unused.example/", **job(receiver, url=f"{receiver.url}/ok"))
    assert platform.wait_for_end(platform.trigger("name:now"))["status"] == "succeeded"
    # Without the job's word a 202 is an answer like any other, and no token goes out.
    platform.create("plain", f"{receiver.url}/status/202")
    assert platform.wait_for_end(platform.trigger("name:plain"))["status"] == "succeeded"
    assert "tocsin-callback-token" not in receiver.requests()[-1].headers
