"""A schedule explained: the words, the next times in its zone and in UTC, and what the clock does to them.

A note stands beside a time that a clock change touches: one that comes right after a gap, and one whose
reading the clock shows twice. The clock changes within the span that is shown are listed below it, because a
time that a gap swallows (`gap: skip`) has no line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from tocsin.clock import EPOCH
from tocsin.schedules.zones import SHIFT, Row, Zone, zone_named
from tocsin_cli.views.tables import format_table
from tocsin_cli.views.times import distance, wall, zone_of

_SECOND = timedelta(seconds=1)
_MOST_CHANGES = 6
_MOST_CHUNKS = 8  # about 32 years; a schedule that is rarer has no use for a list of clock changes


def explanation(
    words: str, times: Sequence[datetime], zone: str, since: datetime, *, given: bool = True
) -> str:
    """The whole text for a terminal. Distances count from `since`, which is `given` by `--from` or is now."""
    if not times:
        return f"{words}\nnever again"
    info = zone_of(zone)
    header = ["DAY", zone.upper(), "UTC", "AFTER --from" if given else "WHEN", "NOTE"]
    rows = [
        [
            when.astimezone(info).strftime("%a"),
            wall(when, info),
            wall(when, zone_of("UTC")),
            distance(when, since),
            remark(when, zone_named(zone)),
        ]
        for when in times
    ]
    if zone == "UTC":
        header, *rows = [row[:1] + row[2:] for row in (header, *rows)]
    lines = [words, "", format_table(header, rows)]
    if changes := list(clock_changes(zone_named(zone), min(since, times[0]), times[-1])):
        lines += ["", "Clock changes in this span:", *(f"  {change}" for change in changes)]
    return "\n".join(lines)


def remark(when: datetime, zone: Zone) -> str:
    """What a clock change does to this time; empty when none is near."""
    second = (when - EPOCH) // _SECOND
    rows = _rows(zone, second, second + 1)
    row = rows[0]
    before = _row_before(zone, row)
    if second == row[0] and before and before[2] < row[2]:
        return f"first moment after the gap {_clock(row[0] + before[2])}-{_clock(row[0] + row[2])}"
    if second + row[2] < row[3]:
        return f"second pass: the clock was set back at {_clock(row[3])}"
    after = _rows(zone, row[1], row[1] + 1)[0]
    if after[2] < row[2] and second + row[2] >= row[1] + after[2]:
        return f"first pass: the clock will be set back at {_clock(row[1] + row[2])}"
    return ""


def clock_changes(zone: Zone, start: datetime, end: datetime) -> Iterator[str]:
    """The clock changes from `start` to `end`, the first few of them."""
    low, high = (start - EPOCH) // _SECOND, (end - EPOCH) // _SECOND + 1
    rows = _rows(zone, low, high)
    told = 0
    for before, after in pairwise(rows):
        if before[2] == after[2] or not low < after[0] < high:
            continue
        if told == _MOST_CHANGES:
            yield "…"
            return
        told += 1
        info = zone_of(zone.name)
        last, first = EPOCH + timedelta(seconds=after[0] - 1), EPOCH + timedelta(seconds=after[0])
        name = last.astimezone(info).strftime("%Z")
        day = (EPOCH + timedelta(seconds=after[0] + before[2])).strftime("%Y-%m-%d")
        there = first.astimezone(info)
        other = "" if f"{there:%Y-%m-%d}" == day else f"{there:%Y-%m-%d} "
        yield f"{day} {_clock(after[0] + before[2])} {name} becomes {other}{there:%H:%M %Z}"


def _rows(zone: Zone, low: int, high: int) -> list[Row]:
    """The stretches of constant offset that overlap [low, high)."""
    chunks = range(low >> SHIFT, min((high >> SHIFT) + 1, (low >> SHIFT) + _MOST_CHUNKS))
    return [row for number in chunks for row in zone.chunk(number)[1] if row[0] < high and low < row[1]]


def _row_before(zone: Zone, row: Row) -> Row | None:
    found = _rows(zone, row[0] - 1, row[0])
    return found[0] if found else None


def _clock(local_second: int) -> str:
    return f"{local_second // 3600 % 24:02}:{local_second // 60 % 60:02}"
