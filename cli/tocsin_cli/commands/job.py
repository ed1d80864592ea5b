"""`tocsin job`: read and change single jobs. `create` and `edit` are in `job_edit.py`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tocsin_cli.client import Client, job_path
from tocsin_cli.commands.job_edit import create, edit
from tocsin_cli.commands.run import finish
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import note
from tocsin_cli.options import (
    Format,
    JobArgument,
    Limit,
    Output,
    Reason,
    Server,
    Time,
    TimeMode,
    Timeout,
    Yes,
)
from tocsin_cli.prompts import confirm
from tocsin_cli.views.emit import emit
from tocsin_cli.views.jobs import job_file, job_table
from tocsin_cli.views.times import Clock

app = typer.Typer(
    help="Create, read, change, pause, run and delete jobs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.command("create")(create)
_LIVE = "scheduled,waiting,queued,running"
_SOME_RUNS = 20  # named when a job is deleted


@app.command("list")
def list_jobs(
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    owner: Annotated[str | None, typer.Option("--owner", help="Only this team's jobs.")] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with this label.")
    ] = None,
    limit: Limit = 200,
    partial: Annotated[
        bool, typer.Option("--partial", help="Without the shards that cannot be reached; exit code 1 then.")
    ] = False,
    server: Server = None,
) -> int:
    """List jobs."""
    with Client(server) as client:
        asked = {"partial": "true"} if partial else {}
        jobs = list(client.items("/jobs", limit, owner=owner, **_labels(label), **asked))
        show(jobs, client, output, time)
        for shard, detail in client.incomplete.items():
            note(f"incomplete: the jobs of shard {shard} are missing: {detail}")
    if len(jobs) == limit:
        note(f"showing {limit} jobs; --limit shows more")
    return ExitCode.NO if client.incomplete else ExitCode.OK


def _labels(label: list[str] | None) -> dict[str, Any]:
    return {"label": label} if label else {}


@app.command("get")
def get_job(
    job: JobArgument, output: Output = Format.TABLE, time: Time = TimeMode.RELATIVE, server: Server = None
) -> None:
    """Show one job; `-o yaml` is its job file."""
    with Client(server) as client:
        show([client.get(job_path(job))], client, output, time, single=True)


app.command("edit")(edit)


@app.command("pause")
def pause_job(job: JobArgument, reason: Reason = None, server: Server = None) -> None:
    """Stop the scheduled runs of a job; runs that exist go on."""
    with Client(server) as client:
        client.post(f"{job_path(job)}/pause", {"reason": reason} if reason else {})
    note(f"paused {job}")


@app.command("resume")
def resume_job(job: JobArgument, server: Server = None) -> None:
    """Let a paused job run again, from its next time on."""
    with Client(server) as client:
        client.post(f"{job_path(job)}/resume", {})
    note(f"resumed {job}")


@app.command("run")
def run_job(
    job: JobArgument,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; its outcome is the exit code.")
    ] = False,
    timeout: Timeout = None,
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    server: Server = None,
) -> int:
    """Run a job now."""
    with Client(server) as client:
        run = client.post(f"{job_path(job)}/runs", {})
        return finish(client, run, wait=wait, timeout=timeout, output=output, time=time)


@app.command("delete")
def delete_job(
    job: JobArgument,
    yes: Yes = False,
    cancel_runs: Annotated[
        bool, typer.Option("--cancel-runs", help="Cancel its runs that have not ended; else they go on.")
    ] = False,
    server: Server = None,
) -> int:
    """Delete a job; its history stays until the end of its retention."""
    with Client(server) as client:
        found = client.get(job_path(job))
        path = job_path(found["jobId"])
        live = [run["runId"] for run in client.items(f"{path}/runs", _SOME_RUNS, status=_LIVE)]
        if live:
            note(
                f"{_runs(live)} not ended; {'cancelled with the job' if cancel_runs else '--cancel-runs cancels'}"
            )
        if not confirm(f"Delete the job {found['name']} ({found['jobId']})?", yes=yes):
            return 1
        client.delete(f"{path}?runs=cancel" if cancel_runs else path)
    note(f"deleted {found['name']}")
    if live:
        note(f"cancelled: {', '.join(live)}" if cancel_runs else f"still going on: {', '.join(live)}")
    return 0


def _runs(live: list[str]) -> str:
    count = f"{len(live)} or more" if len(live) == _SOME_RUNS else str(len(live))
    return f"{count} run has" if count == "1" else f"{count} runs have"


def show(
    jobs: list[dict[str, Any]], client: Client, output: Format, time: TimeMode, *, single: bool = False
) -> None:
    """Jobs on stdout."""
    table = job_table(Clock(mode=time, now=client.now))
    emit(jobs, output, name="name", table=table, single=single, document=job_file)
