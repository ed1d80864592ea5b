"""Skip and queue do what they say, whoever comes at the same time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from store.builder import Bench
from tocsin.ids import partition_of
from tocsin.model.policy import Admission, Limit, admit
from tocsin.model.status import Overlap
from tocsin.store.firing import fire
from tocsin.store.reaping import sweep

Q, W, X, F = Admission.QUEUED, Admission.WAITING, Admission.OVERLAP, Admission.QUEUE_FULL


@pytest.mark.parametrize(
    ("limit", "active", "waiting", "candidates", "expected"),
    [
        (Limit(overlap=Overlap.SKIP, max_running=1, queue_limit=1), 0, 0, [False], [Q]),
        (Limit(overlap=Overlap.SKIP, max_running=1, queue_limit=1), 1, 0, [False], [X]),
        (Limit(overlap=Overlap.SKIP, max_running=2, queue_limit=1), 1, 0, [False, False], [Q, X]),
        (Limit(overlap=Overlap.QUEUE, max_running=1, queue_limit=2), 0, 0, [False] * 4, [Q, W, W, F]),
        (Limit(overlap=Overlap.QUEUE, max_running=1, queue_limit=2), 1, 2, [False], [F]),
        # A new run never overtakes one that waits, though there is room.
        (Limit(overlap=Overlap.QUEUE, max_running=1, queue_limit=5), 0, 1, [False], [W]),
        (Limit(overlap=Overlap.QUEUE, max_running=1, queue_limit=5), 0, 1, [True, False], [Q, W]),
        (Limit(overlap=Overlap.QUEUE, max_running=1, queue_limit=5), 1, 1, [True], [W]),
    ],
)
def test_admission(
    limit: Limit, active: int, waiting: int, candidates: list[bool], expected: list[Any]
) -> None:
    assert admit(limit, active, waiting, candidates) == expected


def fire_at(bench: Bench, job: UUID, nominal: datetime) -> Any:
    """Put the job's trigger at `nominal` and fire it."""
    bench.conn.execute(
        "UPDATE triggers SET fire_at = %s, scheduled_at = %s WHERE job_id = %s", (nominal, nominal, job)
    )
    return fire(bench.conn, bench.plans, bench.owned, limit=100)


def limited_job(bench: Bench, base: datetime, overlap: str, **more: Any) -> UUID:
    return bench.job(
        base,
        schedule={"everySec": 1, "anchor": base.isoformat()},
        concurrency={"overlap": overlap, **more},
    )


def test_skip_records_a_run_with_its_reason(bench: Bench) -> None:
    base = bench.now().replace(microsecond=0) - timedelta(seconds=30)
    job = limited_job(bench, base, "skip")
    assert len(fire_at(bench, job, base).runs) == 1
    done = fire_at(bench, job, base + timedelta(seconds=1))
    assert (done.runs, done.skipped) == ([], 1)
    assert bench.runs(job, "status, reason, attempt, finished_at IS NULL") == [
        ("queued", None, 1, True),
        ("skipped", "overlap", 0, False),
    ]
    bench.conn.execute("UPDATE runs SET status = 'succeeded' WHERE status = 'queued'")
    assert len(fire_at(bench, job, base + timedelta(seconds=2)).runs) == 1


def test_a_retry_that_waits_for_its_backoff_still_holds_the_place(bench: Bench) -> None:
    base = bench.now().replace(microsecond=0) - timedelta(seconds=30)
    job = limited_job(bench, base, "skip")
    fire_at(bench, job, base)
    bench.conn.execute("UPDATE runs SET status = 'scheduled'")
    assert fire_at(bench, job, base + timedelta(seconds=1)).skipped == 1


def test_queue_is_first_in_first_out_and_bounded(bench: Bench) -> None:
    base = bench.now().replace(microsecond=0) - timedelta(seconds=30)
    job = limited_job(bench, base, "queue", queueLimit=2)
    for second in range(4):
        fire_at(bench, job, base + timedelta(seconds=second))
    assert [status for _, status in bench.runs(job)] == ["queued", "waiting", "waiting", "skipped"]
    assert bench.runs(job, "reason")[3] == ("queue_full",)

    bench.conn.execute("UPDATE runs SET status = 'succeeded' WHERE status = 'queued'")
    assert sweep(bench.conn, bench.owned, older_than=300).released == 1
    assert sweep(bench.conn, bench.owned, older_than=300).released == 0, "one trigger is enough"
    bench.conn.execute("UPDATE triggers SET fire_at = 'infinity' WHERE kind = 'schedule'")
    done = fire(bench.conn, bench.plans, bench.owned, limit=100)
    assert [run.key.scheduled_at for run in done.runs] == [base + timedelta(seconds=1)]
    assert [status for _, status in bench.runs(job)] == ["succeeded", "queued", "waiting", "skipped"]


def test_a_new_run_does_not_overtake_a_waiting_one_that_has_room(bench: Bench) -> None:
    base = bench.now().replace(microsecond=0) - timedelta(seconds=30)
    job = limited_job(bench, base, "queue")
    for second in range(2):
        fire_at(bench, job, base + timedelta(seconds=second))
    bench.conn.execute("UPDATE runs SET status = 'succeeded' WHERE status = 'queued'")
    fire_at(bench, job, base + timedelta(seconds=2))
    assert [status for _, status in bench.runs(job)] == ["succeeded", "waiting", "waiting"]


def test_a_manual_run_obeys_the_policy_of_its_job(bench: Bench) -> None:
    base = bench.now().replace(microsecond=0) - timedelta(seconds=30)
    job = limited_job(bench, base, "skip")
    fire_at(bench, job, base)
    manual = bench.now()
    bench.conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, job_version, tier, task_kind, limited)"
        " VALUES (%s, %s, %s, 'scheduled', 'manual', 1, 'default', 'http', true)",
        (partition_of(job), job, manual),
    )
    bench.conn.execute(
        "INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, limited)"
        " VALUES (%s, clock_timestamp(), %s, %s, 'run', 1, true)",
        (partition_of(job), job, manual),
    )
    bench.conn.execute("UPDATE triggers SET fire_at = 'infinity' WHERE kind = 'schedule'")
    assert fire(bench.conn, bench.plans, bench.owned, limit=100).skipped == 1
    assert bench.runs(job, "status, reason")[1] == ("skipped", "overlap")


def test_a_stale_or_paused_limited_job_does_not_fire(bench: Bench) -> None:
    base = bench.now().replace(microsecond=0) - timedelta(seconds=30)
    stale = limited_job(bench, base, "skip")
    paused = limited_job(bench, base, "queue")
    bench.conn.execute("UPDATE jobs SET version = 2 WHERE job_id = %s", (stale,))
    bench.conn.execute("UPDATE jobs SET paused = true WHERE job_id = %s", (paused,))
    done = fire(bench.conn, bench.plans, bench.owned, limit=100)
    assert (done.runs, done.stale) == ([], 2)
    assert bench.runs(stale) == bench.runs(paused) == []
