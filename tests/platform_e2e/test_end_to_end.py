"""The whole path on real parts: created over REST, fired, executed, seen in the history."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from platform_e2e.platform import Platform
from support.receiver import Receiver


def check_a_job_runs_at_its_times(platform: Platform, receiver: Receiver) -> None:
    platform.node()
    platform.worker()
    job = platform.create("every-second", f"{receiver.url}/ok", schedule={"every": "1s"})
    receiver.wait_for(lambda request: request.path.startswith("/ok"), count=4, timeout=30)
    platform.client.post(f"/jobs/{job}/pause", json={"reason": "seen enough"})
    platform.wait(lambda: not [r for r in platform.runs(job) if r["status"] != "succeeded"])
    runs = platform.runs(job)
    nominal = [run["nominalTime"] for run in runs]
    assert nominal == sorted(nominal)
    seconds = {run["nominalTime"][17:19] for run in runs}
    assert len(seconds) == len(runs) >= 4, "one run a second"
    assert {request.key for request in receiver.requests()} == {run["runId"] for run in runs}
    assert all(run["latenessSec"] >= 0 for run in runs)
    one = platform.run(runs[0]["runId"])
    assert [a["attempt"] for a in one["attempts"]] == [1]
    assert one["output"]["size"] >= 0


def test_on_rabbitmq(platform: Platform, receiver: Receiver) -> None:
    check_a_job_runs_at_its_times(platform, receiver)


def test_on_the_embedded_broker(embedded_platform: Platform, receiver: Receiver) -> None:
    check_a_job_runs_at_its_times(embedded_platform, receiver)


def test_a_failing_run_is_retried_and_its_attempts_are_there_to_see(
    platform: Platform, receiver: Receiver
) -> None:
    platform.node()
    platform.worker()
    job = platform.create(
        "flaky", f"{receiver.url}/status/503?times=2", retryPolicy={"maxAttempts": 4, "initial": "100ms"}
    )
    run = platform.wait_for_end(platform.trigger(job))
    assert run["status"] == "succeeded"
    assert [(a["attempt"], a["httpStatus"]) for a in run["attempts"]] == [(1, 503), (2, 503), (3, 200)]
    assert [r.headers["tocsin-attempt"] for r in receiver.requests()] == ["1", "2", "3"]
    assert len({r.key for r in receiver.requests()}) == 1, "one idempotency key for all attempts"

    again = platform.client.post(f"/runs/{run['runId']}/retry")
    assert again.status_code == 202
    rerun = platform.wait_for_end(again.json()["runId"])
    assert (rerun["origin"], rerun["rerunOf"]) == ("rerun", run["runId"])


def test_a_worker_killed_in_mid_run_costs_an_attempt_not_the_run(
    platform: Platform, receiver: Receiver
) -> None:
    platform.node()
    worker = platform.worker()
    job = platform.create("held", f"{receiver.url}/hold", retryPolicy={"maxAttempts": 3, "initial": "0s"})
    run_id = platform.trigger(job)
    receiver.wait_for(lambda request: request.key == run_id, count=1, timeout=30)
    worker.kill()
    platform.worker()
    receiver.wait_for(lambda request: request.key == run_id, count=2, timeout=30)
    receiver.release()
    run = platform.wait_for_end(run_id)
    assert (run["status"], run["attempt"]) == ("succeeded", 2)
    assert run["attempts"][0]["reason"] == "lease_expired"
    assert [r.headers["tocsin-attempt"] for r in receiver.requests(lambda r: r.key == run_id)] == ["1", "2"]


def test_cancel_reaches_a_running_attempt(platform: Platform, receiver: Receiver) -> None:
    platform.node()
    platform.worker()
    job = platform.create("held", f"{receiver.url}/hold")
    run_id = platform.trigger(job)
    receiver.wait_for(lambda request: request.key == run_id, count=1, timeout=30)
    assert platform.client.post(f"/runs/{run_id}/cancel", json={}).status_code == 202
    assert platform.wait_for_end(run_id)["status"] == "cancelled"


POINTS = [
    "after-commit-before-publish",
    "after-publish-before-confirm",
    "after-confirm-before-watermark",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_node_killed_at_a_crash_point_misses_nothing(
    platform: Platform, receiver: Receiver, point: str
) -> None:
    first = platform.node(TOCSIN_CRASH_AT=point)
    at = (platform.now() + timedelta(seconds=2)).isoformat()
    jobs = [platform.create(f"at-{n}", f"{receiver.url}/ok", schedule={"at": at}) for n in range(20)]
    assert first.wait(timeout=30) == -9, "the node must die where it was told to"
    platform.node()
    # Only now, so that a message that was published twice is in the queue twice.
    platform.worker()
    receiver.wait_for(lambda request: request.path == "/ok", count=20, timeout=60)
    runs = [platform.wait(lambda job=job: platform.runs(job, status="succeeded")) for job in jobs]
    assert [len(r) for r in runs] == [1] * 20
    # The message may come twice, the execution may not.
    platform.wait(
        lambda: not platform.database.execute("SELECT 1 FROM runs WHERE status <> 'succeeded'").fetchall()
    )
    assert len(receiver.requests()) == 20
    assert len({r.key for r in receiver.requests()}) == 20


def _spans(platform: Platform, job: str) -> list[tuple[str, str]]:
    return sorted(
        (run["startedAt"], run["finishedAt"]) for run in platform.runs(job) if run["status"] == "succeeded"
    )


def test_overlap_policies_while_runs_overlap(platform: Platform, receiver: Receiver) -> None:
    platform.node()
    platform.worker()
    slow = f"{receiver.url}/slow?seconds=1.4"
    jobs = {
        policy: platform.create(
            policy, slow, schedule={"every": "1s"}, concurrency={"overlap": policy, "queueLimit": 2}
        )
        for policy in ("skip", "queue", "allow")
    }
    # The queue is full once it has recorded a skip; by then the others have met overlaps, too.
    platform.wait(lambda: platform.runs(jobs["queue"], status="skipped"))
    for job in jobs.values():
        platform.client.post(f"/jobs/{job}/pause", json={})
    live = {"scheduled", "waiting", "queued", "running"}
    for job in jobs.values():
        platform.wait(lambda job=job: not [r for r in platform.runs(job) if r["status"] in live])

    for policy in ("skip", "queue"):
        spans = _spans(platform, jobs[policy])
        assert len(spans) >= 2
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans)), f"{policy}: runs overlapped"
    assert {r["reason"] for r in platform.runs(jobs["skip"], status="skipped")} == {"overlap"}
    assert {r["reason"] for r in platform.runs(jobs["queue"], status="skipped")} == {"queue_full"}
    allowed = _spans(platform, jobs["allow"])
    assert any(earlier[1] > later[0] for earlier, later in pairwise(allowed)), "allow: nothing overlapped"
    assert platform.runs(jobs["allow"], status="skipped") == []


@pytest.mark.parametrize(("mode", "runs"), [("all", 4), ("latest", 1), ("none", 0)])
def test_a_job_that_begins_in_the_past(platform: Platform, receiver: Receiver, mode: str, runs: int) -> None:
    platform.node()
    platform.worker()
    start = platform.now().replace(microsecond=0) - timedelta(minutes=95)
    job = platform.create(
        "past",
        f"{receiver.url}/ok",
        schedule={"every": "30m", "anchor": start.isoformat(), "start": start.isoformat()},
        catchUp=mode,
    )
    next_run = start + timedelta(minutes=120)
    platform.wait(
        lambda: datetime.fromisoformat(platform.client.get(f"/jobs/{job}").json()["nextRunAt"]) == next_run
    )
    platform.wait(lambda: len(platform.runs(job, status="succeeded")) == runs)
    nominal = [start + timedelta(minutes=30 * n) for n in range(4)]
    kept = nominal[4 - runs :]
    assert [datetime.fromisoformat(r["nominalTime"]) for r in platform.runs(job)] == kept
    gaps = platform.database.execute("SELECT first_at, last_at, count FROM gaps").fetchall()
    dropped = nominal[: 4 - runs]
    assert gaps == ([(dropped[0], dropped[-1], len(dropped))] if dropped else [])


@pytest.fixture(params=["postgres", "zookeeper"])
def coordinator(request: pytest.FixtureRequest) -> str:
    """A value of TOCSIN_COORDINATOR."""
    return "postgres" if request.param == "postgres" else str(request.getfixturevalue("zookeeper"))


def test_nodes_share_the_partitions_and_take_over_from_a_dead_one(
    platform: Platform, receiver: Receiver, coordinator: str
) -> None:
    first = platform.node(TOCSIN_COORDINATOR=coordinator)
    second = platform.node(TOCSIN_COORDINATOR=coordinator)
    platform.worker()

    def owners() -> dict[str, int]:
        rows = platform.database.execute("SELECT owner, count(*) FROM partitions GROUP BY owner").fetchall()
        return dict(rows)

    platform.wait(lambda: len(owners()) == 2 and min(owners().values()) > 400)
    jobs = [platform.create(f"second-{n}", f"{receiver.url}/ok", schedule={"every": "1s"}) for n in range(10)]
    receiver.wait_for(lambda request: request.path == "/ok", count=20, timeout=30)
    first.kill()
    platform.wait(lambda: list(owners().values()) == [1024])
    receiver.wait_for(lambda request: request.path == "/ok", count=len(receiver.requests()) + 30, timeout=30)
    second.terminate()
    assert second.returncode == 0
    assert owners() == {None: 1024}, "a node that is told to stop gives its partitions up"
    platform.wait(lambda: not [job for job in jobs for r in platform.runs(job) if r["status"] != "succeeded"])
    for job in jobs:
        seconds = [datetime.fromisoformat(run["nominalTime"]) for run in platform.runs(job)]
        assert all(b - a == timedelta(seconds=1) for a, b in pairwise(seconds)), "a second is missing"
    keys = [request.key for request in receiver.requests(lambda request: request.path == "/ok")]
    assert len(keys) == len(set(keys)), "a run was executed twice"


def test_a_node_that_is_told_to_stop_delays_nothing(
    platform: Platform, receiver: Receiver, coordinator: str
) -> None:
    first = platform.node(TOCSIN_COORDINATOR=coordinator)
    platform.node(TOCSIN_COORDINATOR=coordinator)
    platform.worker()
    begin = platform.now().replace(microsecond=0)
    for n in range(50):  # spread over the second, so that some are due while the partitions move
        anchor = (begin + timedelta(milliseconds=20 * n)).isoformat(timespec="milliseconds")
        platform.create(f"at-{n}", f"{receiver.url}/ok", schedule={"every": "1s", "anchor": anchor})
    receiver.wait_for(lambda request: request.path == "/ok", count=100, timeout=30)
    told = platform.now()
    assert first.terminate() == 0
    receiver.wait_for(lambda request: request.path == "/ok", count=len(receiver.requests()) + 150, timeout=30)
    row = platform.database.execute(
        "SELECT count(*), max(fired_at - scheduled_at) FROM runs WHERE scheduled_at > %s AND fired_at IS NOT NULL",
        (told - timedelta(seconds=1),),
    ).fetchone()
    assert row is not None
    print(f"{coordinator}: latest of {row[0]} runs around a SIGTERM: {row[1].total_seconds():.3f} s")
    assert row[0] > 100
    assert row[1] < timedelta(seconds=1)
