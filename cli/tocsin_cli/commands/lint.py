"""`tocsin lint`: check job files without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import note, usage
from tocsin_cli.options import Files, Format, Output

if TYPE_CHECKING:
    from tocsin_cli.files.jobfile import JobFile

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def lint(file: Files = None, output: Output = Format.TABLE) -> int:
    """Check job files, without a server; exit code 1 when something is wrong."""
    from tocsin_cli.files.jobfile import load

    if not file:
        raise usage("no file is given", "add -f PATH")
    loaded = load(file)
    if output in {Format.JSON, Format.JSONL}:
        found = [item.as_dict() for item in loaded.findings]
        texts = (
            [json.dumps(item) for item in found] if output is Format.JSONL else [json.dumps(found, indent=2)]
        )
    else:
        texts = [str(item) for item in loaded.findings]
    for text in texts:
        print(text)
    for line in _never(loaded.jobs):
        note(line)
    if loaded.findings:
        note(f"{len(loaded.findings)} to correct, {_fine(len(loaded.jobs))}")
        return ExitCode.NO
    if not loaded.jobs:
        raise usage("the files hold no job", "write a job, or give another -f PATH")
    note(_fine(len(loaded.jobs)))
    return ExitCode.OK


def _fine(count: int) -> str:
    return "1 job is fine" if count == 1 else f"{count} jobs are fine"


def _never(jobs: list[JobFile]) -> Iterator[str]:
    """A note for each job that could not be created as of now; that is no fault of a file for a job that exists."""
    from tocsin.clock import now
    from tocsin.errors import InvalidError
    from tocsin.store.timing import first_nominal

    for entry in jobs:
        try:
            first_nominal(entry.job, now())
        except InvalidError as error:
            where = f"{entry.file}:{entry.place.line}"
            yield f"note: {where} {entry.name}: {error.problems[0].detail}; it cannot be created any more"
