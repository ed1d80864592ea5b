"""`tocsin api`: serve the REST API."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin_cli.services import log_to_stderr, settings_or_fail

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def api(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port to listen on.")] = 7420,
) -> int:
    """Serve the API until it is told to stop."""
    log_to_stderr()
    settings = settings_or_fail()
    from tocsin_api.app import run

    return int(run(settings, host, port))
