"""`tocsin help TOPIC`."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin_cli.exits import table
from tocsin_cli.failures import usage

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="exit-codes")] = "exit-codes",
) -> None:
    """Explain a topic: exit-codes."""
    if name != "exit-codes":
        raise usage(f"there is no topic {name!r}", "write `tocsin help exit-codes`, or COMMAND --help")
    print(table())
