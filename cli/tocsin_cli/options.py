"""The options that many commands share, so that they are spelt and explained the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How data is written to stdout."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


class TimeMode(StrEnum):
    """How instants are written in tables; JSON and YAML always carry RFC 3339 in UTC."""

    RELATIVE = "relative"
    LOCAL = "local"
    NOMINAL = "nominal"
    UTC = "utc"
    ISO = "iso"


Output = Annotated[Format, typer.Option("-o", "--output", help="Form of the data on stdout.")]
Time = Annotated[
    TimeMode, typer.Option("--time", help="Instants in tables: relative and in the job's zone, or only one.")
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", envvar="TOCSIN_API_URL", metavar="URL", help="The API; default http://127.0.0.1:7420."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Files = Annotated[
    list[str] | None,
    typer.Option("-f", "--file", metavar="PATH", help="Job file or directory; `-` is stdin. Repeatable."),
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="Stop waiting after this; exit code 8.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Most items shown.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the job or run.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's name or ID.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's ID.")]
