"""The evidence for a violation: everything that is known of that job around that time, in order."""

from __future__ import annotations

from chaos.history import History, instant
from chaos.judge import Finding

_SHOWN = 12
_AROUND = 12.0  # seconds


def explain(history: History, found: list[Finding]) -> str:
    """The first violations, each with its timeline."""
    parts = []
    for finding in found[:_SHOWN]:
        parts.append(f"{finding.verdict}: {finding.job} {_time(finding.nominal / 1e6)} {finding.detail}")
        parts += [f"    {line}" for line in _timeline(history, finding)]
    if len(found) > _SHOWN:
        parts.append(f"and {len(found) - _SHOWN} more")
    return "\n".join(parts)


def _timeline(history: History, finding: Finding) -> list[str]:
    job = next((job for job in history.jobs if job.name == finding.job), None)
    if job is None:
        return []
    centre = finding.nominal / 1e6
    lines: list[tuple[float, str]] = []
    for change in job.changes:
        lines.append((change.start, f"{change.what} {change.schedule} answered {_time(change.end)}"))
    for arrival in history.arrivals:
        if arrival.job_id == job.job_id and abs(arrival.nominal / 1e6 - centre) < _AROUND:
            lines.append((arrival.at, f"arrival of {_time(arrival.nominal / 1e6)} attempt {arrival.attempt}"))
    for run in history.runs:
        if run.job_id == job.job_id and abs(run.nominal / 1e6 - centre) < _AROUND:
            lines.append(
                (
                    run.fired_at or run.nominal / 1e6,
                    f"run {_time(run.nominal / 1e6)} {run.status} {run.reason}",
                )
            )
    for gap in history.gaps:
        if gap.job_id == job.job_id:
            lines.append((gap.first / 1e6, f"gap until {_time(gap.last / 1e6)}"))
    for fault in history.faults:
        if fault.start - _AROUND < centre < fault.end + _AROUND:
            lines.append((fault.start, f"fault {fault.kind} {fault.target} until {_time(fault.end)}"))
    head = [
        f"job {job.job_id} partition {int(job.job_id[-3:], 16) & 1023}" if job.job_id else "never created"
    ]
    return head + [f"{_time(at)} {words}" for at, words in sorted(lines)]


def _time(seconds: float) -> str:
    return f"{instant(seconds):%H:%M:%S.%f}"[:-3] if 0 < seconds < 1e11 else "-"
