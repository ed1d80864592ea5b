"""One field of a cron expression: text in, a bit mask and a normalised text out.

An item is `*`, `*/n`, a value, `a-b` or `a-b/n`; a field is a comma list of items. Day-of-month also knows
`L`; day-of-week also knows `5L` and `1#2`. Whether a field *starts* with `*` matters twice (how the two
day fields combine, and whether the job follows elapsed time), so the normalised text keeps the star.

Weakness: a list keeps the order it was written in, so `1,2` and `2,1` count as two different schedules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tocsin.errors import ScheduleError
from tocsin.schedules.foreign import refuse_foreign_item

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_ITEM = re.compile(r"(\*|[0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?(?:/([0-9]+))?")
_NTH = re.compile(r"([0-9]+|[a-z]+)#([0-9]+)")
_LAST = re.compile(r"([0-9]+|[a-z]{3})l")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldKind:
    """What may stand in a field. `star_high` is what `*` reaches: 6 in day-of-week, where 7 is 0 again."""

    name: str
    low: int
    high: int
    star_high: int
    names: tuple[str, ...] = ()

    def number(self, name: str) -> int:
        return self.names.index(name) + self.low


SECOND = FieldKind(name="second", low=0, high=59, star_high=59)
MINUTE = FieldKind(name="minute", low=0, high=59, star_high=59)
HOUR = FieldKind(name="hour", low=0, high=23, star_high=23)
DAY_OF_MONTH = FieldKind(name="dayOfMonth", low=1, high=31, star_high=31)
MONTH = FieldKind(name="month", low=1, high=12, star_high=12, names=MONTHS)
DAY_OF_WEEK = FieldKind(name="dayOfWeek", low=0, high=7, star_high=6, names=WEEKDAYS)
FIVE_FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parsed field. Bit v of `mask` says that v matches; weekdays are 0-6 from Sunday.

    `last_day` is `L` in day-of-month. Bit w of `last` is `wL`; bit n of `nth[w]` is `w#n`.
    """

    text: str
    star: bool
    mask: int = 0
    last_day: bool = False
    last: int = 0
    nth: tuple[int, ...] = (0,) * 7

    def values(self) -> tuple[int, ...]:
        return tuple(v for v in range(self.mask.bit_length()) if self.mask >> v & 1)


def parse_field(kind: FieldKind, text: str) -> Field:
    """Parse one field. Raises ScheduleError that names the field and the fix."""
    texts: list[str] = []
    mask = last = 0
    last_day = False
    nth = [0] * 7
    for item in text.lower().split(","):
        refuse_foreign_item(kind.name, item, kind.high)
        if kind is DAY_OF_MONTH and item == "l":
            last_day = True
            texts.append("L")
        elif kind is DAY_OF_WEEK and (found := _LAST.fullmatch(item)):
            day = _value(kind, found[1]) % 7
            last |= 1 << day
            texts.append(f"{day}L")
        elif kind is DAY_OF_WEEK and (found := _NTH.fullmatch(item)):
            day, week = _nth(kind, found[1], found[2])
            nth[day] |= 1 << week
            texts.append(f"{day}#{week}")
        else:
            bits, normal = _item(kind, item, text)
            mask |= bits
            texts.append(normal)
    star = text.startswith("*")
    return Field(text=",".join(texts), star=star, mask=mask, last_day=last_day, last=last, nth=tuple(nth))


def _nth(kind: FieldKind, day: str, week: str) -> tuple[int, int]:
    number = int(week)
    if not 1 <= number <= 5:
        raise ScheduleError(
            code="cron_field_range",
            field=kind.name,
            detail=f"`{day}#{week}` asks for weekday number {week} of a month",
            fix=f"write a number from 1 to 5 after `#`, or `{day}L` for the last one",
        )
    return _value(kind, day) % 7, number


def _item(kind: FieldKind, item: str, text: str) -> tuple[int, str]:
    found = _ITEM.fullmatch(item)
    if found is None or (found[1] == "*" and found[2] is not None):
        what = f"`{item}` is no value, range or step" if item else f"`{text}` has an empty item"
        raise ScheduleError(
            code="cron_field_syntax",
            field=kind.name,
            detail=what,
            fix="write `*`, a value, `a-b`, `*/n`, `a-b/n`, or several of them with commas",
        )
    step = _step(kind, item, found[3])
    if found[1] == "*":
        low, high, normal = kind.low, kind.star_high, "*"
    else:
        low = _value(kind, found[1])
        high = low if found[2] is None else _value(kind, found[2])
        normal = str(low % 7 if kind is DAY_OF_WEEK else low) if found[2] is None else f"{low}-{high}"
    if found[3] is not None:
        normal += f"/{step}"
        _check_step(kind, item, found[1], found[2], step, high - low)
    if high < low:
        _refuse_reversed(kind, item, low, high, step)
    return _mask(kind, low, high, step), normal


def _mask(kind: FieldKind, low: int, high: int, step: int) -> int:
    bits = 0
    for value in range(low, high + 1, step):
        bits |= 1 << (value % 7 if kind is DAY_OF_WEEK else value)
    return bits


def _value(kind: FieldKind, text: str) -> int:
    if text.isdigit():
        value = int(text)
        if not kind.low <= value <= kind.high:
            midnight = kind is HOUR and value == 24
            hint = "0 for midnight" if midnight else f"a value from {kind.low} to {kind.high}"
            raise ScheduleError(
                code="cron_field_range",
                field=kind.name,
                detail=f"`{text[:12]}` is outside {kind.low}-{kind.high}",
                fix=f"write {hint}",
            )
        return value
    if text in kind.names:
        return kind.number(text)
    short = text[:3]
    if short in kind.names:
        fix = f"write `{short}`: only the three letters are known"
    elif kind.names:
        fix = f"write a number from {kind.low} to {kind.high}, or one of {', '.join(kind.names)}"
    else:
        fix = f"write a number from {kind.low} to {kind.high}: only month and dayOfWeek know names"
    raise ScheduleError(
        code="cron_names", field=kind.name, detail=f"`{text[:20]}` is no name in this field", fix=fix
    )


def _step(kind: FieldKind, item: str, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if step == 0:
        raise ScheduleError(
            code="cron_step",
            field=kind.name,
            detail=f"`{item}` has a step of zero",
            fix="write a step of 1 or more",
        )
    return step


def _check_step(kind: FieldKind, item: str, low: str, high: str | None, step: int, span: int) -> None:
    if low != "*" and high is None:
        value = _value(kind, low)
        only = value + step > kind.star_high
        raise ScheduleError(
            code="cron_step",
            field=kind.name,
            detail=f"`{item}` has a start but no end",
            fix=f"write `{value}`" if only else f"write `{value}-{kind.star_high}/{step}`",
        )
    if span >= 0 and step > max(span, 1):
        first = kind.low if low == "*" else low
        unit = {"second": "s", "minute": "m", "hour": "h"}.get(kind.name)
        steady = f"`every: {step}{unit}`" if unit else "a schedule with `every`"
        raise ScheduleError(
            code="cron_step",
            field=kind.name,
            detail=f"`{item}` has a step larger than its range, so it matches {first} only",
            fix=f"write `{first}` if that is meant, or {steady} for a steady interval",
        )


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _refuse_reversed(kind: FieldKind, item: str, low: int, high: int, step: int) -> None:
    size = kind.star_high - kind.low + 1
    if kind is DAY_OF_WEEK and high == 0 and step == 1:
        fix = f"write `{low}-7`: 7 is Sunday too"
    elif step == 1 and low <= kind.star_high:
        fix = f"write `{_range(low, kind.star_high)},{_range(kind.low, high)}`"
    else:
        count = (high - low) % size // step + 1
        values = [(low - kind.low + n * step) % size + kind.low for n in range(count)]
        fix = f"write `{','.join(map(str, values))}`"
    raise ScheduleError(
        code="cron_reversed",
        field=kind.name,
        detail=f"`{item}` runs backwards and would match nothing",
        fix=fix,
    )
