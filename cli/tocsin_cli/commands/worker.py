"""`tocsin worker`: one worker process; run as many as you like."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.model.status import Tier
from tocsin_cli.services import log_to_stderr, settings_or_fail

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def worker(
    tier: Annotated[
        list[Tier] | None, typer.Option("--tier", help="Only this tier's queues; repeatable. Default all.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", help="Only this pool, not TOCSIN_POOLS; repeatable.")
    ] = None,
) -> int:
    """Run a worker until it is told to stop."""
    log_to_stderr()
    settings = settings_or_fail(**({"pools": ",".join(pool)} if pool else {}))
    from tocsin_tasks.worker import run

    return int(run(settings, tiers=tuple(tier or Tier)))
