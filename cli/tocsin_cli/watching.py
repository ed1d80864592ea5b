"""Follow a run to its end by asking the API for it again and again.

A lost connection is not an end: the watch goes on asking for LOST_SECONDS. Changes are told on stderr; the
finished run is the data on stdout, its outcome the exit code.

Weakness: a state that lasts shorter than the interval is not told (the attempts in the run still show it).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tocsin.clock import monotonic
from tocsin.model.status import FINAL
from tocsin_cli.client import Client, run_path
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, usage

LOST_SECONDS = 60.0
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 1.0


def seconds_of(text: str | None) -> float | None:
    """A `--timeout` in seconds. Raises Failure."""
    from datetime import timedelta

    from tocsin.errors import ScheduleError
    from tocsin.schedules.values import duration

    if text is None:
        return None
    try:
        return duration("timeout", text, low=timedelta(0), high=timedelta(days=366)).total_seconds()
    except ScheduleError:
        raise usage(f"--timeout {text!r} is not a duration", "write --timeout 30s or --timeout 5m") from None


def follow(
    client: Client, run_id: str, *, timeout: float | None, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """The run when it has ended. Raises Failure with code 8 when `timeout` seconds are over before."""
    path = run_path(run_id)
    start = seen = monotonic()
    told: object = None
    wait = _FIRST_WAIT
    while True:
        run = _ask(client, path, lost_for=monotonic() - seen)
        if run is not None:
            seen = monotonic()
            state = (run["status"], run.get("attempt"))
            if state != told:
                told, wait = state, _FIRST_WAIT
                tell(run)
            if run["status"] in FINAL:
                return run
        if timeout is not None and monotonic() - start + wait > timeout:
            raise _still_running(run_id, run, timeout)
        time.sleep(wait)
        wait = min(wait * 1.5, _LONGEST_WAIT)


def _ask(client: Client, path: str, *, lost_for: float) -> dict[str, Any] | None:
    try:
        run: dict[str, Any] = client.get(path)
        return run
    except Failure as failure:
        if failure.exit_code is not ExitCode.UNREACHABLE or lost_for > LOST_SECONDS:
            raise
        return None


def _still_running(run_id: str, run: dict[str, Any] | None, timeout: float) -> Failure:
    status = run["status"] if run else "unknown: the server does not answer"
    return Failure(
        f"the run has not ended after {timeout:g} s; its status is {status}",
        exit_code=ExitCode.TIMEOUT,
        code="still_running",
        where=run_id,
        fix=f"watch on with `tocsin run watch {run_id}`, or give a longer --timeout",
    )
