"""The next second at which a cron schedule fires: integers in, an integer or None out.

Local time is searched inside stretches of constant offset (`zones.Row`), so every step is arithmetic on
seconds since the epoch and no clock change can be stepped over. A schedule with a fixed time ignores local
readings below the stretch's high water (they repeat) and fires at the start of a stretch for readings that
never showed; a wildcard schedule looks at what the clock shows and nothing else.

Bounds: a day is searched at most 60 years ahead (29 February on a given weekday is at most 40 years away),
the whole search ends after 120 years or with year 9999. Weakness: offsets that are no whole minutes
(before 1972) put five-field times off the UTC minute: they fire when the local clock reads :00 exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date

from tocsin.schedules.cron import CronTable
from tocsin.schedules.model import CronPlan
from tocsin.schedules.zones import SHIFT

_DAY = 86400
_EPOCH_DAY = 719163  # date(1970, 1, 1).toordinal()
_LAST_DAY = 3652059  # date.max.toordinal()
_DAY_SEARCH_YEARS = 60
_SEARCH_SECONDS = 120 * 366 * _DAY
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def next_second(plan: CronPlan, second: int) -> int | None:
    """The first firing second >= `second`, ignoring the schedule's bounds; None if there is none."""
    table, zone, once, after_gap = plan.table, plan.zone, plan.once, plan.after_gap
    number = second >> SHIFT
    starts, rows = zone.chunks.get(number) or zone.chunk(number)
    index = bisect_right(starts, second) - 1
    last = second + _SEARCH_SECONDS
    asked, found = 0, -1  # `found` is the first matching reading >= `asked`
    while True:
        start, end, offset, high = rows[index]
        begin = start + offset
        low = second + offset if second > start else begin
        if after_gap and high < begin:
            fire = begin + -begin % table.resolution - offset
            if second <= fire:
                if not asked <= high <= found:
                    asked, found = high, next_reading(table, high)
                if found < begin:
                    return fire
        if once and high > low:
            low = high
        if not asked <= low <= found:
            asked, found = low, next_reading(table, low)
        if found < end + offset:
            return found - offset
        if end > last or found >= _NEVER:
            return None
        index += 1
        if index == len(rows):
            number += 1
            _, rows = zone.chunk(number)
            index = 0


_NEVER = 1 << 62


def next_reading(table: CronTable, low: int) -> int:
    """The first matching local reading >= `low` in seconds since 1970-01-01T00:00:00; _NEVER if too far."""
    day, rest = divmod(low, _DAY)
    if table.every_day or next_day(table, day) == day:
        minutes, seconds = table.minutes, table.seconds
        minute, second = divmod(rest, 60)
        at = bisect_left(minutes, minute)
        if at < len(minutes):
            if minutes[at] > minute:
                return day * _DAY + minutes[at] * 60 + seconds[0]
            if second <= seconds[-1]:
                return day * _DAY + minute * 60 + seconds[bisect_left(seconds, second)]
            if at + 1 < len(minutes):
                return day * _DAY + minutes[at + 1] * 60 + seconds[0]
    day = day + 1 if table.every_day else next_day(table, day + 1)
    return day * _DAY + table.minutes[0] * 60 + table.seconds[0] if day < _NEVER else _NEVER


def next_day(table: CronTable, day: int) -> int:
    """The first matching day >= `day`, in days since 1970-01-01; _NEVER if there is none for 60 years."""
    ordinal = max(day + _EPOCH_DAY, 1)
    if ordinal > _LAST_DAY:
        return _NEVER
    at = date.fromordinal(ordinal)
    year, month, number = at.year, at.month, at.day
    last_year = min(year + _DAY_SEARCH_YEARS, 9999)
    while True:
        wanted = table.next_month[month]
        if wanted != month:
            month, number = wanted, 1
            if wanted == 0:
                year, month = year + 1, table.next_month[1]
                if year > last_year:
                    return _NEVER
        first = date(year, month, 1).toordinal()
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        # Ordinal 1 was a Monday and a Sunday is 0 here, so the weekday is the ordinal modulo 7.
        left = table.day_masks[_LENGTHS[month] + leap - 28][first % 7] >> number
        if left:
            return first + number - 1 + (left & -left).bit_length() - 1 - _EPOCH_DAY
        month, number = month + 1, 1
