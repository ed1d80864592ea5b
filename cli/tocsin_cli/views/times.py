"""Instants for people: how far away, and in the job's own time zone first.

`relative` says both: `in 3h (02:30 CET)`; the day is added when it is not today's, the date when it is not
within a week. Zones come from the tzdata package, as in the scheduler, never from the host's files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from tocsin_cli.options import TimeMode

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


@cache
def zone_of(name: str | None) -> ZoneInfo:
    """The zone of that name; UTC for none and for a name that tzdata does not know."""
    try:
        data = resources.files("tzdata").joinpath("zoneinfo", *(name or "UTC").split("/"))
        with data.open("rb") as file:
            return ZoneInfo.from_file(file, key=name or "UTC")
    except (OSError, ValueError):
        return zone_of("UTC")


def parse_instant(text: str) -> datetime:
    """An instant of the API, as an aware UTC datetime."""
    return datetime.fromisoformat(text).astimezone(UTC)


def span(seconds: float) -> str:
    """A length of time in at most two units: `4m12s`, `3h`, `1.2s`, `80ms`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for (unit, size), (below, small) in zip(_UNITS, (*_UNITS[1:], ("", 1)), strict=True):
        if whole >= size:
            rest = whole % size // small if below else 0
            return f"{whole // size}{unit}" + (f"{rest}{below}" if rest else "")
    return "0s"


def distance(instant: datetime, now: datetime) -> str:
    """`in 3h`, `5m ago`, `now`; one unit, cut off as a clock does."""
    seconds = (instant - now).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    unit, length = next((unit, length) for unit, length in _UNITS if size >= length)
    text = f"{int(size // length)}{unit}"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def wall(instant: datetime, zone: ZoneInfo) -> str:
    """Date, time and zone abbreviation: `2026-03-29 03:00:00 CEST`."""
    return instant.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def short_wall(instant: datetime, now: datetime, zone: ZoneInfo) -> str:
    """The time with its zone, and as much of the date as is needed to know the day."""
    there = instant.astimezone(zone)
    today = now.astimezone(zone).date()
    clock = there.strftime("%H:%M:%S %Z" if there.second else "%H:%M %Z")
    if there.date() == today:
        return clock
    near = abs(there.date() - today) < timedelta(days=7)
    return there.strftime("%a " if near else "%Y-%m-%d ") + clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How one command shows instants: the mode, and what "now" is."""

    mode: TimeMode
    now: datetime

    def show(self, text: str | None, zone: str | None = None) -> str:
        """An instant of the API; `zone` is the job's. Nothing is `-`."""
        if not text:
            return "-"
        instant = parse_instant(text)
        match self.mode:
            case TimeMode.RELATIVE:
                return f"{distance(instant, self.now)} ({short_wall(instant, self.now, zone_of(zone))})"
            case TimeMode.NOMINAL:
                return wall(instant, zone_of(zone))
            case TimeMode.UTC:
                return wall(instant, zone_of("UTC"))
            case TimeMode.LOCAL:
                return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
            case TimeMode.ISO:
                return text
