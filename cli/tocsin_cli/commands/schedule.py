"""`tocsin schedule`: what an expression means, without a server."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure
from tocsin_cli.options import Format, Output

app = typer.Typer(
    help="Explain schedules, without a server.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """Explain schedules, without a server."""


@app.command("explain")
def explain(
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help='Quoted: "30 2 * * *", "every 15m", "@daily".')
    ],
    tz: Annotated[str | None, typer.Option("--tz", help="IANA time zone; default UTC.")] = None,
    count: Annotated[int, typer.Option("--next", min=1, max=1000, help="How many times to show.")] = 5,
    start: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="Look from here on; default now.")
    ] = None,
    gap: Annotated[str | None, typer.Option("--gap", help="next_valid or skip.")] = None,
    fold: Annotated[str | None, typer.Option("--fold", help="first or both.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Say in words what a schedule means, and when it fires next."""
    from tocsin import schedules
    from tocsin.clock import now
    from tocsin.errors import ScheduleError
    from tocsin.schedules.values import instant

    try:
        schedule = schedules.parse(_mapping(expression, tz, gap, fold))
        since = now() if start is None else instant("from", start)
    except ScheduleError as error:
        raise Failure(
            f"{error.field}: {error.detail}", exit_code=ExitCode.INVALID, code=error.code, fix=error.fix
        ) from None
    times = schedules.preview(schedule, since, count)
    if output in {Format.TABLE, Format.WIDE}:
        from tocsin_cli.views.explain import explanation

        print(explanation(schedules.describe(schedule), times, schedule.time_zone, since, given=bool(start)))
    else:
        _for_programs(schedule, times, output)


def _mapping(expression: str, tz: str | None, gap: str | None, fold: str | None) -> dict[str, Any]:
    """The schedule as a mapping; `every 15m` and `at …` are read as the API reads them."""
    from tocsin import schedules

    word, _, rest = expression.strip().partition(" ")
    if word in {"every", "@every", "at"} and rest:
        base: dict[str, Any] = {word.removeprefix("@"): rest.strip()}
    else:
        base = {"cron": expression}
        schedules.parse(expression)  # alone first, so that an error speaks of the expression as written
    return base | {
        key: value for key, value in (("timeZone", tz), ("gap", gap), ("fold", fold)) if value is not None
    }


def _for_programs(schedule: Any, times: list[Any], output: Format) -> None:
    from tocsin import schedules
    from tocsin.schedules.values import instant_text
    from tocsin_cli.views.emit import yaml_documents

    texts = [instant_text(when) for when in times]
    body = {
        "times": texts,
        "description": schedules.describe(schedule),
        "schedule": schedules.canonical(schedule),
    }
    match output:
        case Format.YAML:
            print(yaml_documents([body]), end="")
        case Format.JSON:
            print(json.dumps(body, ensure_ascii=False, indent=2))
        case _:
            print("\n".join(json.dumps({"time": text}) if output is Format.JSONL else text for text in texts))
