"""Time zones as stretches of constant UTC offset, in whole seconds since 1970-01-01T00:00:00Z.

The rules come from the `tzdata` package and never from the host's files, so that every process of a
release computes the same instants. Transition times are read from the compiled zone file; behind the last
one the file's yearly rule holds, which is found by asking `zoneinfo` week by week and bisecting.

A row is (start, end, offset, high): UTC start and end, the offset between them, and the local reading that
the clock had already reached before `start` ("high water"). `high > start + offset` means that the clock
went back and local times up to `high` repeat; `high < start + offset` means that the readings between the
two never showed. Rows are built and cached in chunks of about four years.

Weakness: a yearly rule that switches twice within a week would be missed; no zone has one.
"""

from __future__ import annotations

import difflib
import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

from tocsin.errors import ScheduleError

Row = tuple[int, int, int, int]
SHIFT = 27
FIRST_SECOND = -62135596800  # 0001-01-01T00:00:00Z
LAST_SECOND = 253402300799  # 9999-12-31T23:59:59Z
_DAY = 86400
_PAD = 3 * _DAY  # longer than any shift ever made, so that `high` is right at the start of a chunk
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_PLACES = frozenset({"Factory", "localtime", "posixrules"})


class Zone:
    """One zone's rows, built on demand. Safe to share between threads: chunks are only ever added."""

    __slots__ = ("_info", "_last", "_times", "chunks", "name")

    def __init__(self, name: str) -> None:
        data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
        with data.open("rb") as file:
            self._info = ZoneInfo.from_file(file, key=name)
        low, high = FIRST_SECOND + 2 * _DAY, LAST_SECOND - 2 * _DAY
        self._times = [t for t in _transition_times(data.read_bytes()) if low < t < high]
        self._last = self._times[-1] if self._times else low
        self.name = name
        self.chunks: dict[int, tuple[list[int], list[Row]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return zone_named, (self.name,)

    def chunk(self, number: int) -> tuple[list[int], list[Row]]:
        """The starts and the rows that cover the seconds [number << SHIFT, (number + 1) << SHIFT)."""
        found = self.chunks.get(number)
        if found is None:
            found = self.chunks[number] = self._build(number << SHIFT, (number + 1) << SHIFT)
        return found

    def offset(self, second: int) -> int:
        """Seconds east of UTC at a UTC second; beyond the calendar, what holds at its edge."""
        second = min(max(second, FIRST_SECOND + 2 * _DAY), LAST_SECOND - 2 * _DAY)
        delta = (_EPOCH + timedelta(seconds=second)).astimezone(self._info).utcoffset()
        assert delta is not None  # a ZoneInfo always has one
        return delta.days * _DAY + delta.seconds

    def _build(self, low: int, high: int) -> tuple[list[int], list[Row]]:
        start = low - _PAD
        offset = self.offset(start)
        mark = start + offset
        rows: list[Row] = []
        for time in [*self._changes(start, high), high]:
            if time > low:
                rows.append((start, time, offset, mark))
            mark = max(mark, time + offset)
            start, offset = time, self.offset(time)
        return [row[0] for row in rows], rows

    def _changes(self, low: int, high: int) -> list[int]:
        """The seconds in (low, high) at which the offset changes."""
        times = self._times[bisect_right(self._times, low) : bisect_right(self._times, high - 1)]
        before = max(low, self._last)
        while before < high - 1:
            after = min(before + 7 * _DAY, high - 1)
            if self.offset(before) != self.offset(after):
                times.append(self._bisect(before, after))
            before = after
        return [time for time in times if self.offset(time - 1) != self.offset(time)]

    def _bisect(self, before: int, after: int) -> int:
        old = self.offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if self.offset(middle) == old else (before, middle)
        return after


def _transition_times(data: bytes) -> tuple[int, ...]:
    """The 64-bit transition times of a compiled zone file (RFC 8536, version 2 or later)."""
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[20:44])
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    count = struct.unpack(">l", data[second + 32 : second + 36])[0]
    body = second + 44
    return struct.unpack(f">{count}q", data[body : body + 8 * count])


@cache
def zone_names() -> frozenset[str]:
    """Every IANA name that the tzdata package knows and that names a place or an offset."""
    text = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return frozenset(text.split()) - _NOT_PLACES


@cache  # bounded by zone_names()
def _load(name: str) -> Zone:
    return Zone(name)


def zone_named(name: object) -> Zone:
    """The zone of that IANA name. Raises ScheduleError `time_zone_unknown` with near names in the fix."""
    if isinstance(name, str) and name in zone_names():
        return _load(name)
    raise ScheduleError(
        code="time_zone_unknown",
        field="timeZone",
        detail=f"`{str(name)[:60]}` is no IANA time zone",
        fix=_near_names(name),
    )


def _near_names(name: object) -> str:
    text = str(name)[:60].lower()
    by_lower = {known.lower(): known for known in sorted(zone_names())}
    near = difflib.get_close_matches(text, by_lower, n=3, cutoff=0.6)
    if not near:
        city = text.rsplit("/", 1)[-1].replace(" ", "_")
        near = [known for known in by_lower if city and known.endswith("/" + city)][:3]
    if near:
        return f"did you mean {' or '.join(f'`{by_lower[known]}`' for known in near)}"
    return "write a name such as `Europe/Berlin` or `UTC`"
