"""`tocsin apply`: make the server's jobs equal to the files. Deletes nothing, fires nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin_cli.client import Client
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, note, usage
from tocsin_cli.options import Files, Format, Output, Server, Yes
from tocsin_cli.prompts import confirm

if TYPE_CHECKING:
    from tocsin_cli.files.jobfile import JobFile
    from tocsin_cli.files.plan import Step

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def apply(
    file: Files = None,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    output: Output = Format.TABLE,
    server: Server = None,
) -> int:
    """Make the server's jobs equal to the job files; jobs that are in no file stay as they are."""
    from tocsin_cli.applying import carry_out, plan, try_out
    from tocsin_cli.files.plan import Action
    from tocsin_cli.views.plans import summary

    jobs = jobs_of(file)
    with Client(server) as client:
        steps = plan(client, jobs)
        show(steps, jobs, output)
        changes = sum(step.action is not Action.UNCHANGED for step in steps)
        if (refused := try_out(client, steps, _failed)) is not None:
            note("nothing was written")
            return refused.exit_code
        if dry_run or not changes:
            note(summary(steps, done=False))
            return ExitCode.OK
        if not confirm(f"Apply {changes} changes?", yes=yes, output=output):
            return ExitCode.NO
        written, failure = carry_out(client, steps, _failed)
    if failure is None:
        note(summary(steps, done=True))
        return ExitCode.OK
    note(f"{written} of {changes} changes were made; apply again when the rest is corrected")
    return ExitCode.NO if written else failure.exit_code


def _failed(step: Step, failure: Failure) -> None:
    note(f"{step.name}: {failure.text()}")


def jobs_of(file: list[str] | None) -> list[JobFile]:
    """The jobs of the files. Raises Failure (7) with every finding."""
    from tocsin_cli.files.findings import failure
    from tocsin_cli.files.jobfile import load

    if not file:
        raise usage("no file is given", "add -f PATH")
    loaded = load(file)
    if loaded.findings:
        raise failure(loaded.findings)
    if not loaded.jobs:
        raise usage("the files hold no job", "write a job, or give another -f PATH")
    return loaded.jobs


def show(steps: list[Step], jobs: list[JobFile], output: Format) -> None:
    """The plan on stdout."""
    from tocsin_cli.files.plan import Action
    from tocsin_cli.views.emit import yaml_documents
    from tocsin_cli.views.plans import as_dict, plan_text

    match output:
        case Format.JSON:
            print(json.dumps([as_dict(step) for step in steps], ensure_ascii=False, indent=2))
        case Format.JSONL:
            for step in steps:
                print(json.dumps(as_dict(step), ensure_ascii=False))
        case Format.YAML:
            print(yaml_documents([as_dict(step) for step in steps]), end="")
        case Format.NAME:
            for step in steps:
                if step.action is not Action.UNCHANGED:
                    print(step.name)
        case _:
            zones = {job.name: job.job.schedule.time_zone if job.job.schedule else None for job in jobs}
            if text := plan_text(steps, zones):
                print(text)
