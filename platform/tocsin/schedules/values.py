"""Durations, instants and closed choices as people write them, checked one value at a time.

Durations are Go-like text (`1h30m10s`, `90s`, `250ms`) or a number of seconds; milliseconds are the finest
unit. Instants are RFC 3339 text or `datetime`. Every refusal is a ScheduleError that names the field.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from tocsin.errors import ScheduleError

_PART = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|h|m|s)"
_DURATION = re.compile(f"(?:{_PART})+")
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_ZERO = timedelta(0)


_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
    type(None): "nothing",
}


def wrong_type(field: str, value: object, wanted: str) -> ScheduleError:
    """The error for a value of a type that cannot stand in `field`."""
    return ScheduleError(
        code="invalid_type",
        field=field,
        detail=f"{_WORDS.get(type(value), 'this')} cannot stand here",
        fix=f"write {wanted}",
    )


def duration(field: str, value: object, *, low: timedelta, high: timedelta) -> timedelta:
    """A duration from text, seconds or timedelta, within [low, high]. Raises ScheduleError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | timedelta):
        raise wrong_type(field, value, "a duration such as `15m`")
    span = _from_text(field, value) if isinstance(value, str) else _from_number(field, value)
    if not low <= span <= high:
        raise ScheduleError(
            code="duration_range",
            field=field,
            detail=f"the duration is outside {duration_text(low)} to {duration_text(high)}",
            fix=f"write a duration from {duration_text(low)} to {duration_text(high)}",
        )
    return span


def _from_text(field: str, text: str) -> timedelta:
    if len(text) <= 60 and _DURATION.fullmatch(text):
        parts = re.findall(_PART, text)
        ms = sum((Fraction(amount) * _UNIT_MS[unit] for amount, unit in parts), Fraction(0))
        if ms.denominator == 1:
            return _milliseconds(field, int(ms))
    fix = "write hours, minutes and seconds such as `1h30m`, `90s` or `250ms`"
    if re.fullmatch(r"[0-9]{1,4}[dw]", text):
        hours = int(text[:-1]) * (24 if text[-1] == "d" else 168)
        fix = f"write `{hours}h` for elapsed time, or a cron expression for calendar days"
    elif re.fullmatch(r"[0-9]{1,9}", text):
        fix = f"write `{text}s` for seconds"
    elif text.startswith("-"):
        fix = "write a duration that is not negative"
    raise ScheduleError(code="duration_syntax", field=field, detail=f"`{text[:60]}` is no duration", fix=fix)


def _from_number(field: str, value: float | timedelta) -> timedelta:
    if isinstance(value, timedelta):
        ms, rest = divmod(value, timedelta(milliseconds=1))
        exact = rest == _ZERO
    elif isinstance(value, float):
        exact = math.isfinite(value) and abs(value) < 1e12 and abs(value * 1000 - round(value * 1000)) < 1e-6
        ms = round(value * 1000) if exact else 0
    else:
        ms, exact = value * 1000, True
    if not exact:
        raise ScheduleError(
            code="duration_syntax",
            field=field,
            detail="the duration is no whole number of milliseconds",
            fix="write at most three decimal places",
        )
    return _milliseconds(field, ms)


def _milliseconds(field: str, ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ms)
    except OverflowError:
        raise ScheduleError(
            code="duration_range",
            field=field,
            detail="the duration is too long",
            fix="write a shorter duration",
        ) from None


def seconds_number(span: timedelta) -> int | float:
    """The seconds of a duration: an int when whole, else a float that parses back to the same value."""
    micros = span // timedelta(microseconds=1)
    return micros // 1_000_000 if micros % 1_000_000 == 0 else micros / 1_000_000


def duration_text(span: timedelta) -> str:
    """The shortest text of a duration in hours, minutes, seconds and milliseconds: `1h30m`, `0s`."""
    ms = span // timedelta(milliseconds=1)
    text = ""
    for unit, size in _UNIT_MS.items():
        amount, ms = divmod(ms, size)
        text += f"{amount}{unit}" if amount else ""
    return text or "0s"


def wall_or_instant(field: str, value: object) -> datetime:
    """A datetime from RFC 3339 text or a datetime; naive if no offset was given. Raises ScheduleError."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date) or not isinstance(value, str):
        raise wrong_type(field, value, "an instant such as `2026-03-08T02:30:00Z`")
    text = value.strip(" ").upper()
    if len(text) <= 40 and _INSTANT.fullmatch(text):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass  # a month 13 or an hour 25: the same answer as for any other unreadable text
    raise ScheduleError(
        code="instant_syntax",
        field=field,
        detail=f"`{value[:60]}` is no date and time",
        fix="write an instant such as `2026-03-08T02:30:00Z`",
    )


def instant(field: str, value: object) -> datetime:
    """An aware UTC instant. Raises ScheduleError for anything naive, unreadable or beyond the calendar."""
    when = wall_or_instant(field, value)
    if when.utcoffset() is None:
        raise ScheduleError(
            code="instant_naive",
            field=field,
            detail="the time has no offset, so it names no instant",
            fix=f"write `{when.isoformat()}Z`, or an offset such as `+01:00`",
        )
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ScheduleError(
            code="instant_syntax",
            field=field,
            detail="the instant is outside the years 1 to 9999 in UTC",
            fix="write an instant within these years",
        ) from None


def instant_text(when: datetime) -> str:
    """RFC 3339 in UTC with `Z`; microseconds only when there are any."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def choice(field: str, value: object, allowed: tuple[str, ...]) -> str:
    """One of a closed set of words. Raises ScheduleError `invalid_choice`."""
    if isinstance(value, str) and value in allowed:
        return str(value)
    raise ScheduleError(
        code="invalid_choice",
        field=field,
        detail=f"`{str(value)[:40]}` is not known here",
        fix=f"write {' or '.join(f'`{word}`' for word in allowed)}",
    )
