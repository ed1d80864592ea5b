"""`tocsin diff`: the plan of apply, and as exit code whether there is anything to do (0 no, 1 yes)."""

from __future__ import annotations

import typer

from tocsin_cli.client import Client
from tocsin_cli.commands.apply import jobs_of, show
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import note
from tocsin_cli.options import Files, Format, Output, Server

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def diff(file: Files = None, output: Output = Format.TABLE, server: Server = None) -> int:
    """Show what apply would change; exit code 1 when there are differences."""
    from tocsin_cli.applying import plan
    from tocsin_cli.files.plan import Action
    from tocsin_cli.views.plans import summary

    jobs = jobs_of(file)
    with Client(server) as client:
        steps = plan(client, jobs)
    show(steps, jobs, output)
    note(summary(steps, done=False))
    return ExitCode.NO if any(step.action is not Action.UNCHANGED for step in steps) else ExitCode.OK
