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
    mine = job.job_id

    def near(nominal: int) -> bool:
        return abs(nominal / 1e6 - centre) < _AROUND

    lines = [(c.start, f"{c.what} {c.schedule} answered {_time(c.end)}") for c in job.changes]
    lines += [
        (a.at, f"arrival of {_time(a.nominal / 1e6)} attempt {a.attempt}")
        for a in history.arrivals
        if a.job_id == mine and near(a.nominal)
    ]
    lines += [
        (r.fired_at or r.nominal / 1e6, f"run {_time(r.nominal / 1e6)} {r.status} {r.reason}")
        for r in history.runs
        if r.job_id == mine and near(r.nominal)
    ]
    lines += [(g.first / 1e6, f"gap until {_time(g.last / 1e6)}") for g in history.gaps if g.job_id == mine]
    lines += [
        (f.start, f"fault {f.kind} {f.target} until {_time(f.end)}")
        for f in history.faults
        if f.start - _AROUND < centre < f.end + _AROUND
    ]
    head = [
        f"job {job.job_id} partition {int(job.job_id[-3:], 16) & 1023}" if job.job_id else "never created"
    ]
    return head + [f"{_time(at)} {words}" for at, words in sorted(lines)]


def _time(seconds: float) -> str:
    return f"{instant(seconds):%H:%M:%S.%f}"[:-3] if 0 < seconds < 1e11 else "-"
