"""`tocsin shard`: which database has which partitions, and moving them. It talks to the databases, not to the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, note, usage
from tocsin_cli.services import settings_or_fail

if TYPE_CHECKING:
    from tocsin.store.moving import Plan
    from tocsin.store.shards import Shard, ShardMap

app = typer.Typer(
    help="List shards, and move partitions between them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list")
def list_shards() -> int:
    """Show each shard's partitions; exit code 1 when one cannot be reached."""
    shards = settings_or_fail().shards
    silent = _ask(shards)
    for shard in shards.shards:
        held = shards.partitions_of(shard)
        moving = sorted(p for p in held if shards.moving(p))
        state = "unreachable" if shard in silent else f"moving {_spans(moving)}" if moving else "ok"
        print(f"{shard.name}\t{_spans(held) or '-'}\t{state}")
    for shard, reason in silent.items():
        note(f"{shard.name}: {reason}")
    return ExitCode.NO if silent else ExitCode.OK


@app.command("move")
def move_range(
    partitions: Annotated[str, typer.Argument(metavar="RANGE", help="Partitions, such as 100-199.")],
    to: Annotated[str, typer.Option("--to", metavar="SHARD", help="The shard's name, or its URL.")],
    max_pause: Annotated[
        float, typer.Option("--max-pause", min=1, help="Seconds without writes after which it is given up.")
    ] = 60.0,
    lease: Annotated[
        float, typer.Option("--lease", min=0.5, help="Seconds after which a mover that died is forgotten.")
    ] = 10.0,
    settle: Annotated[
        float, typer.Option("--settle", min=0, help="Seconds between the switch and the end of the old rows.")
    ] = 10.0,
) -> None:
    """Move partitions to another shard while everything runs; the same command again completes one that died."""
    shards = settings_or_fail().shards
    first, last = _range(partitions)
    target = _target(shards, to)
    silent = _ask(shards)
    from tocsin.store.moving import Plan

    def plan(source: Shard) -> Plan:
        return Plan(
            source=source, target=target, first=first, last=last,
            lease=lease, max_pause=max_pause, settle=settle,
        )  # fmt: skip

    groups = shards.group(range(first, last + 1))
    involved = [shard for shard in (*groups, target) if shard in silent]
    if involved:
        raise _failure(silent[involved[0]], "check TOCSIN_DATABASE_URL and that the server runs")
    if list(groups) == [target]:
        _complete(shards, [plan(shard) for shard in _former(shards, target, first, last)], partitions)
    elif len(groups) > 1:
        parts = "; ".join(f"{_spans(held)} in {shard.name}" for shard, held in groups.items())
        raise usage(f"{partitions} is in several shards: {parts}", "move each part by itself")
    else:
        _move(shards, plan(next(iter(groups))), partitions)


def _move(shards: ShardMap, plan: Plan, partitions: str) -> None:
    from beatshard import crash
    from tocsin.store.moving import move

    with _failing():
        done = move(shards, plan, say=note, reached=crash.point)
    counted = ", ".join(f"{count} {name}" for name, count in done.rows.items() if count)
    print(f"moved {partitions} from {plan.source.name} to {plan.target.name}: {counted or 'no rows'}")
    print(f"pause {done.pause:.2f} s")


def _complete(shards: ShardMap, plans: list[Plan], partitions: str) -> None:
    from tocsin.store.moving import finish_again

    deleted = 0
    with _failing():
        for plan in plans:
            deleted += finish_again(shards, plan)
    print(f"{partitions} is there already; deleted {deleted} old rows")


def _former(shards: ShardMap, target: Shard, first: int, last: int) -> list[Shard]:
    """The shards that had partitions of the range, as they say."""
    return [
        shard
        for shard in shards.shards
        if shard != target
        and (report := shards.report_of(shard)) is not None
        and any(p in report.places for p in range(first, last + 1))
    ]


def _ask(shards: ShardMap) -> dict[Shard, str]:
    """Learn from each shard what it has; those that do not answer, and why."""
    from tocsin.errors import ShardUnavailableError
    from tocsin.store.transactions import refresh

    silent = {}
    for _ in range(2):  # what the first says of the last is told to the first the second time
        for shard in shards.shards:
            if shard not in silent:
                try:
                    refresh(shards, shard)
                except ShardUnavailableError as error:
                    silent[shard] = str(error)
    return silent


def _range(text: str) -> tuple[int, int]:
    from tocsin.ids import PARTITIONS

    match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last < PARTITIONS:
        raise usage(f"{text!r} is no range of partitions", f"write it as 100-199, within 0-{PARTITIONS - 1}")
    return first, last


def _target(shards: ShardMap, text: str) -> Shard:
    from tocsin.store.shards import libpq_url

    for shard in shards.shards:
        addresses = [libpq_url(url) for url in (shard.url, shard.direct_url) if url]
        if text == shard.name or libpq_url(text) in addresses:
            return shard
    names = ", ".join(shard.name for shard in shards.shards)
    raise usage(
        f"no shard is {text!r}; there are {names}",
        "add it as spare=URL to TOCSIN_DATABASE_URL of every process, restart them, run tocsin db upgrade",
    )


def _spans(partitions: Iterable[int]) -> str:
    """Partitions as ranges."""
    spans: list[list[int]] = []
    for p in sorted(partitions):
        if spans and spans[-1][1] == p - 1:
            spans[-1][1] = p
        else:
            spans.append([p, p])
    return ",".join(f"{first}-{last}" if first != last else f"{first}" for first, last in spans)


@contextmanager
def _failing() -> Iterator[None]:
    """Errors of a move as Failures."""
    import psycopg

    from tocsin.errors import TocsinError

    try:
        yield
    except TocsinError as error:
        fix = getattr(error, "fix", "look at `tocsin shard list`")
        raise _failure(f"nothing was moved: {error}", fix) from None
    except psycopg.Error as error:
        raise _failure(
            f"the move was interrupted: {str(error).splitlines()[0][:200]}",
            "look at `tocsin shard list`, and run the same command again: it completes the move or begins anew",
        ) from None


def _failure(message: str, fix: str) -> Failure:
    return Failure(message, exit_code=ExitCode.UNREACHABLE, code="shard_move", fix=fix)
