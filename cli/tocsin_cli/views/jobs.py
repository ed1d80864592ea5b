"""Jobs as tables and as job files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from tocsin.errors import ScheduleError
from tocsin.model.status import SERVER_FIELDS
from tocsin_cli.views.emit import Item, Table
from tocsin_cli.views.times import Clock

_DURATIONS = (
    ("timeoutSec",),
    ("schedule", "everySec"),
    ("schedule", "jitterSec"),
    ("retryPolicy", "initialSec"),
    ("retryPolicy", "maxSec"),
    ("catchUp", "windowSec"),
)
_REFERENCE = re.compile(r"\$(?=\$*\{(?:env|secret):)")


def job_table(clock: Clock) -> Callable[[Sequence[Item], bool], Table]:
    """The table of jobs, with the job's own zone for its times."""

    def build(jobs: Sequence[Item], wide: bool) -> Table:
        header = ["NAME", "STATUS", "SCHEDULE", "NEXT", "OWNER"]
        rows = [
            [job["name"], status(job), words(job), _next(job, clock), job.get("owner", "-")] for job in jobs
        ]
        if wide:
            header += ["TIER", "TASK", "VERSION", "UPDATED", "ID"]
            for row, job in zip(rows, jobs, strict=True):
                row += [job.get("tier", "-"), _task(job), str(job.get("version", "-"))]
                row += [clock.show(job.get("updatedAt")), job.get("jobId", "-")]
        return header, rows

    return build


def status(job: Item) -> str:
    """`active`, `paused` (with the reason), `manual` without a schedule, `done` when the schedule has ended."""
    if job.get("paused"):
        return f"paused ({job['pauseReason']})" if job.get("pauseReason") else "paused"
    if not job.get("schedule"):
        return "manual"
    return "active" if job.get("nextRunAt") else "done"


def words(job: Item) -> str:
    """The schedule in words."""
    from tocsin import schedules

    if not job.get("schedule"):
        return "by hand only"
    try:
        return schedules.describe(schedules.parse(job["schedule"]))
    except ScheduleError:  # a newer server may know more than this CLI
        return str(job["schedule"])


def zone_name(job: Item) -> str | None:
    """The time zone of a job's schedule."""
    schedule = job.get("schedule")
    return schedule.get("timeZone") if isinstance(schedule, dict) else None


def _next(job: Item, clock: Clock) -> str:
    return clock.show(job.get("nextRunAt"), zone_name(job))


def _task(job: Item) -> str:
    kind, task = next(iter((job.get("task") or {"-": None}).items()))
    return (
        f"{kind} {task.get('method', '')} {task.get('url', '')}".strip() if isinstance(task, dict) else kind
    )


def job_file(job: Item) -> Item:
    """The job as its file: without what the server added, with durations as people write them."""
    document: Item = {key: _copy(value) for key, value in job.items() if key not in SERVER_FIELDS}
    for *path, key in _DURATIONS:
        holder: Any = document
        for step in path:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(key), int | float):
            items = [_short(k, v) if k == key else (k, v) for k, v in holder.items()]
            holder.clear()
            holder.update(items)
    if isinstance(document.get("schedule"), dict):
        document["schedule"] = {k: v for k, v in document["schedule"].items() if v is not None}
    if isinstance(http := (document.get("task") or {}).get("http"), dict):
        document["task"]["http"] = {k: v for k, v in http.items() if v is not None}
    if document.get("paused") is False:  # a file that says so would resume the job when it is applied
        del document["paused"]
    return document


def _short(key: str, seconds: float) -> tuple[str, object]:
    from tocsin.schedules.values import duration_text

    whole = timedelta(seconds=seconds)
    exact = whole.microseconds % 1000 == 0 and abs(seconds - whole.total_seconds()) < 1e-9
    return (key.removesuffix("Sec"), duration_text(whole)) if exact else (key, seconds)


def _copy(value: Any) -> Any:
    """A deep copy whose text cannot be mistaken for a reference to the environment."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return _REFERENCE.sub("$$", value) if isinstance(value, str) else value
