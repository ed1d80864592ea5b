"""The verdict of the cluster test sees what is missed, what is called twice and what nobody asked for."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "ops"))

from cluster.load import Wave, judge

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAVE = Wave(name="storm", jobs=2, start=START, seconds=3)


def _call(job: str, second: int, late: float = 0.5) -> str:
    nominal = START + timedelta(seconds=second)
    headers = {
        "tocsin-job": job,
        "tocsin-nominal-time": nominal.isoformat().replace("+00:00", "Z"),
        "idempotency-key": f"{job}/{second}",
    }
    return json.dumps({"received_at": int((nominal.timestamp() + late) * 1e9), "headers": headers})


def _all() -> list[str]:
    return [_call(f"storm-{job}", second) for job in range(2) for second in range(3)]


def test_every_second_of_every_job_once_is_good() -> None:
    verdict = judge(WAVE, [*_all(), _call("calm-0", 1)])
    assert verdict.good
    assert (verdict.expected, verdict.late_median, verdict.late_worst) == (6, 0.5, 0.5)


def test_a_missing_call_is_missed() -> None:
    verdict = judge(WAVE, _all()[1:])
    assert (verdict.missed, verdict.good) == (1, False)


def test_a_second_call_of_a_run_is_a_double_run() -> None:
    verdict = judge(WAVE, [*_all(), _call("storm-1", 2, late=9.0)])
    assert (verdict.double_runs, verdict.missed, verdict.good, verdict.late_worst) == (1, 0, False, 9.0)


def test_a_call_after_the_end_is_unasked() -> None:
    verdict = judge(WAVE, [*_all(), _call("storm-1", 3)])
    assert (verdict.unasked, verdict.good) == (1, False)


def test_nothing_at_all_is_not_good() -> None:
    assert judge(WAVE, []).missed == 6
