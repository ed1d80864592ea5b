"""`tocsin run`: what ran, what runs, and how it ended."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tocsin_cli.client import Client, job_path, run_path
from tocsin_cli.exits import ExitCode, exit_for_run
from tocsin_cli.failures import Failure, note
from tocsin_cli.options import (
    Format,
    JobArgument,
    Limit,
    Output,
    Reason,
    RunArgument,
    Server,
    Time,
    TimeMode,
    Timeout,
)
from tocsin_cli.views.emit import emit
from tocsin_cli.views.jobs import zone_name
from tocsin_cli.views.runs import progress, run_table
from tocsin_cli.views.times import Clock

app = typer.Typer(
    help="List, watch, retry and cancel runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; its outcome is the exit code.")]


@app.command("list")
def list_runs(
    job: JobArgument,
    status: Annotated[
        str | None, typer.Option("--status", help="Only these, separated by commas: failed,skipped.")
    ] = None,
    limit: Limit = 20,
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    server: Server = None,
) -> None:
    """List the runs of a job, newest first."""
    with Client(server) as client:
        runs = list(client.items(f"{job_path(job)}/runs", limit, status=status))
        _show(runs, client, output, time, job=job)


@app.command("get")
def get_run(
    run: RunArgument, output: Output = Format.TABLE, time: Time = TimeMode.RELATIVE, server: Server = None
) -> None:
    """Show one run; `-o yaml` shows its attempts and its output as well."""
    with Client(server) as client:
        _show([client.get(run_path(run))], client, output, time, single=True)


@app.command("watch")
def watch_run(
    run: RunArgument,
    timeout: Timeout = None,
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    server: Server = None,
) -> int:
    """Follow a run to its end; its outcome is the exit code."""
    with Client(server) as client:
        return finish(client, client.get(run_path(run)), wait=True, timeout=timeout, output=output, time=time)


@app.command("retry")
def retry_run(
    run: RunArgument,
    wait: Wait = False,
    timeout: Timeout = None,
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    server: Server = None,
) -> int:
    """Run a finished run's job once more, as a new run."""
    with Client(server) as client:
        again = client.post(f"{run_path(run)}/retry", {})
        return finish(client, again, wait=wait, timeout=timeout, output=output, time=time)


@app.command("cancel")
def cancel_run(run: RunArgument, reason: Reason = None, server: Server = None) -> None:
    """Cancel a run; a running attempt is stopped at the worker's next heartbeat."""
    with Client(server) as client:
        after = client.post(f"{run_path(run)}/cancel", {"reason": reason} if reason else {})
    ended = after["status"] == "cancelled"
    note(f"cancelled {run}" if ended else f"cancel requested for {run}; its worker stops it within seconds")


def finish(
    client: Client, run: dict[str, Any], *, wait: bool, timeout: str | None, output: Format, time: TimeMode
) -> int:
    """Show a run, after its end if `wait`; the exit code is then its outcome."""
    from tocsin_cli.watching import follow, seconds_of

    seconds = seconds_of(timeout)
    if not wait:
        _show([run], client, output, time, single=True)
        return ExitCode.OK

    def tell(state: dict[str, Any]) -> None:
        note(progress(state, Clock(mode=time, now=client.now)))

    ended = follow(client, run["runId"], timeout=seconds, tell=tell)
    _show([ended], client, output, time, single=True)
    return exit_for_run(ended["status"])


def _show(
    runs: list[dict[str, Any]],
    client: Client,
    output: Format,
    time: TimeMode,
    *,
    job: str | None = None,
    single: bool = False,
) -> None:
    clock = Clock(mode=time, now=client.now)
    zone = None
    if runs and output in {Format.TABLE, Format.WIDE} and time in {TimeMode.RELATIVE, TimeMode.NOMINAL}:
        zone = _zone(client, job or runs[0]["jobId"])
    emit(runs, output, name="runId", table=run_table(clock, zone), single=single)


def _zone(client: Client, job: str) -> str | None:
    """The zone in which the job thinks; a deleted job's runs are shown in UTC."""
    try:
        return zone_name(client.get(job_path(job)))
    except Failure as failure:
        if failure.exit_code is not ExitCode.NOT_FOUND:
            raise
        return None
