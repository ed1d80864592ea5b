"""Runs as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin_cli.views.emit import Item, Table
from tocsin_cli.views.times import Clock, span


def run_table(clock: Clock, zone: str | None) -> Callable[[Sequence[Item], bool], Table]:
    """The table of runs; `zone` is the job's."""

    def build(runs: Sequence[Item], wide: bool) -> Table:
        header = ["RUN", "STATUS", "NOMINAL", "LATE", "TOOK", "TRY", "ORIGIN", "WHY"]
        rows = [_row(run, clock, zone) for run in runs]
        if wide:
            header += ["JOB", "STARTED", "FINISHED", "HTTP"]
            for row, run in zip(rows, runs, strict=True):
                row += [run.get("jobName") or "-", clock.show(run.get("startedAt"), zone)]
                row += [clock.show(run.get("finishedAt"), zone), str(run.get("httpStatus") or "-")]
        return header, rows

    return build


def _row(run: Item, clock: Clock, zone: str | None) -> list[str]:
    return [
        run["runId"],
        run["status"],
        clock.show(run.get("nominalTime"), zone),
        _span(run.get("latenessSec")),
        _span(run.get("durationSec")),
        str(run.get("attempt", "-")),
        run.get("origin") or "-",
        why(run),
    ]


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else span(max(seconds, 0.0))


def why(run: Item) -> str:
    """Why the run ended as it did, in few words; `-` when there is nothing to explain."""
    if run.get("reason") == "http_status" and run.get("httpStatus"):
        return f"http {run['httpStatus']}"
    return run.get("error") or run.get("reason") or "-"


def progress(run: Item, clock: Clock) -> str:
    """One line about a run that is being watched."""
    line = f"{run['status']}"
    if run["status"] == "scheduled" and run.get("attempt"):
        line = f"attempt {run['attempt']} failed: {last_failure(run)}"
        if run.get("nextAttemptAt"):
            line += f"; retry {clock.show(run['nextAttemptAt'])}"
    elif run["status"] in {"running", "queued"}:
        line += f", attempt {run.get('attempt', '-')}"
    elif run["status"] in {"failed", "cancelled", "skipped"}:
        line += f": {why(run)}"
    elif run.get("durationSec") is not None:
        line += f" in {span(run['durationSec'])}"
    return line


def last_failure(run: Item) -> str:
    """What the newest recorded attempt failed of."""
    attempts = run.get("attempts") or []
    return why(attempts[-1] if attempts else run)
