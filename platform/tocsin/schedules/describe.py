"""A schedule in words, for people: `at 02:30 on Monday to Friday, Europe/Berlin`. 24-hour clock.

The words are made from the matching values, not from the expression's spelling, so that they cannot repeat
a misunderstanding. Weakness: English only, and a dense list of values is read out in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from tocsin.clock import EPOCH
from tocsin.schedules.cron import CronTable
from tocsin.schedules.fields import Field
from tocsin.schedules.model import AtSchedule, CronSchedule, EverySchedule, Schedule
from tocsin.schedules.values import duration_text, instant_text

_MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
_MOST_CLOCK_TIMES = 6


def describe(schedule: Schedule) -> str:
    """One sentence without a full stop; never empty."""
    match schedule:
        case CronSchedule():
            table = schedule.plan.table
            days = _days(table)
            words = f"{_times(table)}{' ' + days if days else ''}, {schedule.time_zone}"
        case EverySchedule():
            words = f"every {_count(schedule.interval).removeprefix('1 ')}"
            if schedule.anchor != EPOCH:
                words += f", counted from {instant_text(schedule.anchor)}"
        case AtSchedule():
            words = f"once at {instant_text(schedule.instant)}"
    if schedule.start is not None:
        words += f", from {instant_text(schedule.start)}"
    if schedule.end is not None:
        words += f", until {instant_text(schedule.end)}"
    if schedule.jitter:
        words += f", each run up to {_count(schedule.jitter)} later"
    return words


def _count(span: timedelta) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(span, timedelta(seconds=size))
        if count and not rest:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return duration_text(span)


def _times(table: CronTable) -> str:
    seconds, minutes, hours = (field.values() for field in table.fields[:3])
    if len(table.minutes) * len(seconds) <= _MOST_CLOCK_TIMES and len(hours) < 24:
        tail = len(table.seconds) > 1 or table.seconds[0] > 0
        clock = [
            f"{minute // 60:02}:{minute % 60:02}" + (f":{second:02}" if tail else "")
            for minute in table.minutes
            for second in seconds
        ]
        return "at " + _join(clock)
    words = _minute_words(minutes)
    if seconds != (0,):
        every = _even_step(seconds, 60)
        if len(seconds) == 60 and len(minutes) == 60:
            words = "every second"
        elif every and len(minutes) == 60:
            words = f"every {every} seconds"
        else:
            of = words.replace("every", "of every", 1)
            words = f"at second{_s(seconds)} {_runs(seconds, str)} {of}"
    return words + _hour_words(hours, every_minute=len(minutes) == 60)


def _minute_words(minutes: tuple[int, ...]) -> str:
    if len(minutes) == 60:
        return "every minute"
    if every := _even_step(minutes, 60):
        return f"every {every} minutes"
    return f"at minute{_s(minutes)} {_runs(minutes, str)}"


def _hour_words(hours: tuple[int, ...], *, every_minute: bool) -> str:
    if len(hours) == 24:
        return "" if every_minute else " of every hour"
    if every := _even_step(hours, 24):
        return f" of every {_ORDINALS[every]} hour" if every <= 5 else f" of hours {_runs(hours, _hour)}"
    return f" of hour{_s(hours)} {_runs(hours, _hour)}"


def _hour(hour: int) -> str:
    return f"{hour:02}"


def _even_step(values: tuple[int, ...], size: int) -> int:
    """n if the values are 0, n, 2n ... and wrap without a short step; else 0."""
    step = size // len(values)
    return step if 1 < step < size and values == tuple(range(0, size, step)) else 0


def _days(table: CronTable) -> str:
    day, month, weekday = table.fields[3:]
    parts = [words for words in (_day_words(day), _weekday_words(weekday)) if words]
    joined = (" or " if table.either_day else " and ").join(parts)
    if len(month.values()) < 12:
        joined += f"{' ' if joined else ''}in {_runs(month.values(), _MONTHS.__getitem__)}"
    return joined


def _day_words(day: Field) -> str:
    if len(day.values()) == 31:
        return ""
    parts = [f"day{_s(day.values())} {_runs(day.values(), str)}"] if day.mask else []
    return "on " + _join([*parts, *(["the last day"] if day.last_day else [])]) + " of the month"


def _weekday_words(weekday: Field) -> str:
    if len(weekday.values()) == 7:
        return ""
    # Monday first, as people read a week; Sunday (0) goes to the end.
    values = tuple(sorted((value - 1) % 7 for value in weekday.values()))
    parts = [_runs(values, lambda value: _WEEKDAYS[(value + 1) % 7])] if values else []
    for name, weeks in zip(_WEEKDAYS, weekday.nth, strict=True):
        parts += [f"the {_ORDINALS[n]} {name} of the month" for n in range(1, 6) if weeks >> n & 1]
    parts += [f"the last {name} of the month" for n, name in enumerate(_WEEKDAYS) if weekday.last >> n & 1]
    return "on " + _join(parts)


def _runs(values: Iterable[int], name: Callable[[int], str]) -> str:
    """`1 to 5, 8 and 10`: three or more neighbours become a run."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words: list[str] = []
    for run in runs:
        words += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else [name(value) for value in run]
    return _join(words)


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _s(values: tuple[int, ...]) -> str:
    return "" if len(values) == 1 else "s"
