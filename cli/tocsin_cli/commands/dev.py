"""`tocsin dev`: everything on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class LogFormat(StrEnum):
    """How the log is written."""

    TEXT = "text"
    JSON = "json"


@app.command()
def dev(
    port: Annotated[
        int,
        typer.Option("--port", min=1, max=55_000, help="Port of the API; if taken, the next free one."),
    ] = 7420,
    host: Annotated[str, typer.Option("--host", help="Loopback address to listen on.")] = "127.0.0.1",
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Keep jobs and history there.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample/--no-sample", help="Apply the sample jobs.")] = True,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="text or json.")] = LogFormat.TEXT,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show everything the parts say.")] = False,
) -> int:
    """Run everything on this machine, for development: databases, API, one beat node, one worker."""
    from tocsin_cli.dev.console import Console
    from tocsin_cli.dev.ports import loopback
    from tocsin_cli.dev.server import DevServer, Options

    address = loopback(host)
    options = Options(host=address, port=port, data=data.resolve() if data else None, sample=sample)
    return DevServer(options, Console(verbose=verbose, as_json=log_format is LogFormat.JSON)).run()
