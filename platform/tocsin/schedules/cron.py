"""A whole cron expression: split, refused if it is ambiguous, and turned into tables for the evaluator.

Five fields (minute, hour, day-of-month, month, day-of-week) or six with leading seconds. The result is
`CronTable`: which days match is answered by 28 masks (month length x weekday of the 1st), which time of
day by a sorted tuple of minutes and one of seconds. A table holds no zone and is shared by every job
with the same expression.

The day fields are OR-ed when neither starts with `*`, else AND-ed, as vixie cron does; `L` and `#` are
ordinary day conditions under that rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tocsin.errors import ScheduleError
from tocsin.schedules.fields import FIVE_FIELDS, SECOND, Field, parse_field
from tocsin.schedules.foreign import refuse_alias, refuse_foreign_text

MAX_TEXT = 1000
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LENGTHS = (28, 29, 30, 31)
_MONTH_LENGTHS = {1: (31,), 2: (28, 29), 3: (31,), 4: (30,), 5: (31,), 6: (30,)} | {
    7: (31,), 8: (31,), 9: (30,), 10: (31,), 11: (30,), 12: (31,),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTable:
    """An expression ready to evaluate. `text` is its normal form; `resolution` is 60 or 1 second.

    `wildcard`: the minute or the hour field starts with `*`, so the job follows elapsed local time.
    `either_day`: a day matches when one of the two day fields does; else both must.
    `day_masks[length - 28][weekday of the 1st]`: bit d says that day d matches; weekday 0 is Sunday.
    `next_month[m]`: the first matching month >= m within the year, or 0.
    """

    text: str
    fields: tuple[Field, ...]
    resolution: int
    wildcard: bool
    every_day: bool
    either_day: bool
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    next_month: tuple[int, ...]
    day_masks: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=4096)
def parse_cron(text: str, both_days: bool = False) -> CronTable:
    """Parse an expression or alias; `both_days` says that the two day fields are AND-ed whatever they are. Pure.
    Raises ScheduleError naming the field and the fix."""
    words = _words(text)
    normal_seconds = "" if len(words) == 5 else words[0]
    if normal_seconds:
        _refuse_ambiguous(words)
    second = parse_field(SECOND, normal_seconds or "0")
    fields = tuple(parse_field(kind, word) for kind, word in zip(FIVE_FIELDS, words[-5:], strict=True))
    minute, hour, day, month, weekday = fields
    either = not (both_days or day.star or weekday.star)
    masks = tuple(tuple(_day_mask(day, weekday, n, first, either) for first in range(7)) for n in _LENGTHS)
    _refuse_never(month, masks)
    texts = [field.text for field in fields]
    return CronTable(
        text=" ".join([second.text, *texts] if normal_seconds else texts),
        fields=(second, *fields),
        resolution=1 if normal_seconds else 60,
        wildcard=minute.star or hour.star,
        every_day=all(masks[n - 28][0] == (2 << n) - 2 for n in _LENGTHS) and month.mask == (1 << 13) - 2,
        either_day=either,
        seconds=second.values(),
        minutes=_minutes_of_day(minute.mask, hour.mask),
        next_month=tuple(next((m for m in month.values() if m >= low), 0) for low in range(14)),
        day_masks=masks,
    )


def _words(text: str) -> list[str]:
    text = text.strip(" \t")
    if not text:
        raise ScheduleError(
            code="cron_fields",
            field="cron",
            detail="the expression is empty",
            fix="write five fields such as `30 2 * * *`, or leave the schedule out",
        )
    _refuse_characters(text)
    if text.startswith("@"):
        if text not in ALIASES:
            refuse_alias(text, tuple(ALIASES))
        return ALIASES[text].split()
    refuse_foreign_text(text)
    words = text.split()
    if len(words) not in (5, 6):
        raise ScheduleError(
            code="cron_fields",
            field="cron",
            detail=f"{len(words)} field{'s' if len(words) > 1 else ''} instead of five or six",
            fix="write minute, hour, day-of-month, month and day-of-week, optionally with seconds first",
        )
    return words


def _refuse_characters(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ScheduleError(
            code="cron_too_long",
            field="cron",
            detail=f"the expression has more than {MAX_TEXT} characters",
            fix="write ranges and steps instead of long lists",
        )
    odd = next((char for char in text if not (char == "\t" or " " <= char <= "~")), None)
    if odd is not None:
        raise ScheduleError(
            code="cron_unicode",
            field="cron",
            detail=f"the character U+{ord(odd):04X} has no meaning in an expression",
            fix="write ASCII digits, a plain hyphen and plain spaces on one line",
        )


def _refuse_ambiguous(words: list[str]) -> None:
    if words[0] == "*":
        raise ScheduleError(
            code="cron_fields",
            field="second",
            detail="six fields that start with `*`: five fields with one star too many, or every second",
            fix=f"write `{' '.join(words[:5])}` for five fields, or `every: 1s`, or `*/1` for the seconds",
        )
    literal = words[0].isdigit() and int(words[0][:4]) != 0 and words[1].isdigit()
    if literal and words[2:] == ["*"] * 4:
        six = " ".join([*words[:2], "*/1", *words[3:]])
        raise ScheduleError(
            code="cron_fields",
            field="cron",
            detail="six fields: either seconds come first, or a five-field line has one star too many",
            fix=f"write `{' '.join(words[:5])}` for five fields, or `{six}` if seconds are meant",
        )


def _minutes_of_day(minutes: int, hours: int) -> tuple[int, ...]:
    return tuple(h * 60 + m for h in range(24) if hours >> h & 1 for m in range(60) if minutes >> m & 1)


def _day_mask(day: Field, weekday: Field, length: int, first: int, either: bool) -> int:
    """Bits 1..length of the matching days in a month whose 1st falls on weekday `first`."""
    mask = 0
    for number in range(1, length + 1):
        name = (first + number - 1) % 7
        by_day = bool(day.mask >> number & 1) or (day.last_day and number == length)
        by_name = bool(
            weekday.mask >> name & 1
            or weekday.nth[name] >> ((number + 6) // 7) & 1
            or (weekday.last >> name & 1 and number > length - 7)
        )
        if (by_day or by_name) if either else (by_day and by_name):
            mask |= 1 << number
    return mask


def _refuse_never(month: Field, masks: tuple[tuple[int, ...], ...]) -> None:
    # Every month length meets every weekday of the 1st within 400 years, so this is exact without a search.
    if not any(any(masks[n - 28]) for m in month.values() for n in _MONTH_LENGTHS[m]):
        raise ScheduleError(
            code="cron_never_fires",
            field="dayOfMonth",
            detail="the expression never fires: no year has such a day",
            fix="write a day that exists; a job meant to be run by hand only leaves out its schedule",
        )
