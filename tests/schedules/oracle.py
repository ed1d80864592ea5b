"""A slow judge for schedules: it steps through every minute (or second) and asks what the clock shows.

It shares no code with the implementation: its own tiny parser, plain sets, and `zoneinfo` alone. It is held
to the recorded instants of tests/data/fires.jsonl. It believes that its input is valid.

The rules, step by step. `high` is the local reading the clock had reached before this step.
- The clock shows a matching reading: a wildcard job fires; a fixed-time job fires if the reading is new
  (>= high) or `fold` is "both".
- The reading jumped over matching ones (high < reading): a fixed-time job with `gap` "next_valid" fires at
  the first whole minute from here (first second, for six fields).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib import resources
from itertools import chain
from zoneinfo import ZoneInfo

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NAMES = {
    "month": ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    "weekday": ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
_LOW_HIGH = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 6),
}
_PAD = timedelta(days=3)


def _number(field: str, text: str) -> int:
    if text.isdigit():
        return int(text)
    return _NAMES[field].index(text.lower()) + _LOW_HIGH[field][0]


def _values(field: str, text: str) -> set[int]:
    """The plain numbers of a field; the specials `L` and `#` are looked at by `Expression.day`."""
    numbers: set[int] = set()
    for item in text.split(","):
        if field in ("day", "weekday") and ("#" in item or item.lower().endswith("l")):
            continue
        span, _, step = item.partition("/")
        first, dash, last = span.partition("-")
        if first == "*":
            low, high = _LOW_HIGH[field]
        else:
            low = _number(field, first)
            high = _number(field, last) if dash else low
        numbers.update(range(low, high + 1, int(step or 1)))
    return {n % 7 for n in numbers} if field == "weekday" else numbers


@dataclass(frozen=True)
class Expression:
    """A parsed expression as plain sets."""

    seconds: set[int]
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    day_text: str
    weekday_text: str
    wildcard: bool
    step: timedelta

    def day(self, on: date) -> bool:
        tomorrow = on + timedelta(days=1)
        by_day = on.day in self.days or ("l" in self.day_text.lower() and tomorrow.month != on.month)
        weekday = on.isoweekday() % 7
        by_name = weekday in self.weekdays
        for item in self.weekday_text.lower().split(","):
            if "#" in item:
                name, _, week = item.partition("#")
                number = (on.day - 1) // 7 + 1
                by_name |= _number("weekday", name) % 7 == weekday and int(week) == number
            elif item.endswith("l"):
                next_week = on + timedelta(days=7)
                by_name |= _number("weekday", item[:-1]) % 7 == weekday and next_week.month != on.month
        if self.day_text.startswith("*") or self.weekday_text.startswith("*"):
            return by_day and by_name
        return by_day or by_name

    def matches(self, reading: datetime) -> bool:
        return (
            reading.minute in self.minutes
            and reading.hour in self.hours
            and reading.second in self.seconds
            and reading.month in self.months
            and self.day(reading.date())
        )


def parse(expression: str) -> Expression:
    words = _ALIASES.get(expression, expression).split()
    seconds = words.pop(0) if len(words) == 6 else None
    minute, hour, day, month, weekday = words
    return Expression(
        seconds=_values("second", seconds or "0"),
        minutes=_values("minute", minute),
        hours=_values("hour", hour),
        days=_values("day", day),
        months=_values("month", month),
        weekdays=_values("weekday", weekday),
        day_text=day,
        weekday_text=weekday,
        wildcard=minute.startswith("*") or hour.startswith("*"),
        step=timedelta(minutes=1) if seconds is None else timedelta(seconds=1),
    )


@lru_cache
def zone(name: str) -> ZoneInfo:
    """The zone from the tzdata package, whatever the host has."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def steps(name: str, start: datetime, end: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """(UTC instant, local reading) for every step from `start` to `end`; naive readings."""
    place, at = zone(name), start
    while at <= end:
        yield at, at.astimezone(place).replace(tzinfo=None)
        at += step


def _whole_minutes(name: str, start: datetime, end: datetime) -> bool:
    """Whether every offset of the window is a whole number of minutes (all are since 1972)."""
    hours = steps(name, start, end + timedelta(hours=1), timedelta(hours=1))
    return all(reading.second == at.second for at, reading in hours)


def fires(
    expression: str,
    zone_name: str,
    start_exclusive: datetime,
    end_inclusive: datetime,
    *,
    gap: str = "next_valid",
    fold: str = "first",
) -> list[datetime]:
    """The instants in (start, end] at which a cron expression fires, by stepping through all of them."""
    cron = parse(expression)
    first = (start_exclusive - _PAD).replace(second=0, microsecond=0)
    whole = _whole_minutes(zone_name, first, end_inclusive)
    step = cron.step if whole else timedelta(seconds=1)
    found: list[datetime] = []
    high: datetime | None = None
    owed = False
    # The run-up only has to know `high`, and for that minutes are enough unless offsets have seconds.
    start = start_exclusive.replace(second=0, microsecond=0)
    coarse = timedelta(minutes=1) if whole else step
    run_up = steps(zone_name, first, start - coarse, coarse)
    for at, reading in chain(run_up, steps(zone_name, start, end_inclusive, step)):
        width = coarse if at < start else step
        due = cron.matches(reading)
        if not cron.wildcard and high is not None:
            due = due and (fold == "both" or reading >= high)
            while gap == "next_valid" and high < reading:
                owed = owed or cron.matches(high)
                high += width
            if owed and (cron.step < timedelta(minutes=1) or reading.second == 0):
                due, owed = True, False
        if due and at > start_exclusive:
            found.append(at)
        high = reading + width if high is None else max(high, reading + width)
    return found


def fires_every(
    interval: timedelta, anchor: datetime, start_exclusive: datetime, end_inclusive: datetime
) -> list[datetime]:
    """The instants anchor + n * interval in (start, end], one addition at a time."""
    at = anchor
    while at > start_exclusive:
        at -= interval
    found = []
    while at <= end_inclusive:
        if at > start_exclusive:
            found.append(at)
        at += interval
    return found


def fires_at(wall: datetime, zone_name: str, *, gap: str = "next_valid") -> datetime | None:
    """The instant of a naive local time given in whole minutes: its first showing, or the end of the gap."""
    around = wall.replace(tzinfo=UTC)
    high: datetime | None = None
    for at, reading in steps(zone_name, around - _PAD, around + _PAD, timedelta(minutes=1)):
        if reading == wall or (high is not None and high <= wall < reading):
            return at if reading == wall or gap == "next_valid" else None
        high = reading + timedelta(minutes=1) if high is None else max(high, reading + timedelta(minutes=1))
    return None
