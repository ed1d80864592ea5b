"""Histories made by hand for the tests of the judge."""

from __future__ import annotations

from chaos.history import STOPPED, Arrival, Change, Ended, History, Job, Run, instant
from chaos.judge import VERDICTS, judge

START = 1_800_000_000.0  # a whole minute
JOB = "0" * 32
EVERY = {"every": "10s", "anchor": instant(START).isoformat()}


def nominal(second: float) -> int:
    return int((START + second) * 1e6)


def arrival(second: float, delay: float = 0.1, attempt: int = 1) -> Arrival:
    return Arrival(at=START + second + delay, job_id=JOB, nominal=nominal(second), attempt=attempt)


def run(second: float, status: str = "succeeded", **more: object) -> Run:
    given = {"reason": None, "origin": "schedule", "attempt": 1, "fired_at": START + second, **more}
    return Run(job_id=JOB, nominal=nominal(second), status=status, **given)  # type: ignore[arg-type]


def sound(kind: str = "plain", **more: object) -> History:
    """A job that runs at 10, 20, 30 and is paused at 35."""
    job = Job("job", kind, JOB, **more)  # type: ignore[arg-type]
    job.changes = [
        Change("create", EVERY, START + 1, START + 2),
        Change("pause", STOPPED, START + 35, START + 36),
    ]
    return History(
        jobs=[job],
        arrivals=[arrival(second) for second in (10, 20, 30)],
        runs=[run(second) for second in (10, 20, 30)],
        gaps=[],
        faults=[],
        attempts={},
        ended=START + 60,
    )


def verdicts(history: History) -> set[str]:
    found = {finding.verdict for finding in judge(history)}
    assert found <= set(VERDICTS)
    return found


def lost(
    second: float, worker: str = "worker0", reason: str = "lease_expired"
) -> dict[tuple[str, int, int], Ended]:
    """How the first attempt of a run ended."""
    return {(JOB, nominal(second), 1): Ended(reason=reason, worker=worker)}
