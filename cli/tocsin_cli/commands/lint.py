"""`tocsin lint`: check job files without a server."""

from __future__ import annotations

import json

import typer

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import note, usage
from tocsin_cli.options import Files, Format, Output

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
    if loaded.findings:
        note(f"{len(loaded.findings)} to correct, {len(loaded.jobs)} jobs are fine")
        return ExitCode.NO
    note(f"{len(loaded.jobs)} jobs are fine")
    return ExitCode.OK
