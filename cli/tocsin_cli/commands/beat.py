"""`tocsin beat`: one beat node; run as many as you like, they share the partitions."""

from __future__ import annotations

import typer

from tocsin_cli.services import log_to_stderr, settings_or_fail

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def beat() -> int:
    """Run a beat node until it is told to stop."""
    log_to_stderr()
    settings = settings_or_fail()
    from beatshard.node import run

    return int(run(settings))
