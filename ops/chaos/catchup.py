"""What the catch-up policies promise, judged from a job's gaps and runs; pure.

An outage no longer than the window loses nothing, whatever the policy. Beyond it `latest` keeps the last nominal time
that is due and `none` keeps none; what is dropped is told as a gap. A gap of `all` is never right, but for a change of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.history import DROPPING, Fault, Gap, Job, Run
from chaos.times import near_fault

WINDOW = 10.0  # seconds; the shortest that a job may have
_ROUGH = 1.5  # seconds between the decision to drop nominal times and the instant that is recorded for it
Told = tuple[str, int, str]  # verdict, nominal time, words


def judge_gaps(job: Job, gaps: list[Gap], expected: set[int], faults: Iterable[Fault]) -> Iterator[Told]:
    """Gaps of a job that may have them: only after a fault and past the window, and no more than the policy drops."""
    if job.kind not in DROPPING:
        return
    faults = list(faults)
    for gap in gaps:
        if any(c.what != "create" and c.start <= gap.recorded <= c.end + _ROUGH for c in job.changes):
            continue  # a call may drop what it makes void
        if not near_fault(faults, gap.first / 1e6, gap.recorded):
            yield "missed", gap.first, "dropped without a fault"
        if gap.recorded - gap.first / 1e6 < WINDOW:
            yield (
                "missed",
                gap.first,
                f"dropped after {gap.recorded - gap.first / 1e6:.1f} s, within the window",
            )
        following = min((n for n in expected if n > gap.last), default=None)
        if following is None:
            continue
        ahead = following / 1e6 - gap.recorded
        if job.kind == "latest" and ahead > _ROUGH:
            yield "missed", gap.last, "dropped, though it was the latest that was due"
        if job.kind == "none" and ahead < -_ROUGH:
            yield "wrong", following, "due when the others were dropped, and yet kept"


def judge_kept(job: Job, runs: Iterable[Run], expected: set[int]) -> Iterator[Told]:
    """Runs that were made past the window, though the policy drops such."""
    if job.kind not in DROPPING:
        return
    for run in runs:
        if run.origin != "schedule" or run.fired_at is None:
            continue
        if run.fired_at - run.nominal / 1e6 < WINDOW + _ROUGH:
            continue
        following = min((n for n in expected if n > run.nominal), default=None)
        newer = following is not None and following / 1e6 < run.fired_at - _ROUGH
        if job.kind == "none" or newer:
            yield (
                "wrong",
                run.nominal,
                f"made {run.fired_at - run.nominal / 1e6:.1f} s late under `{job.kind}`",
            )
