"""Schedules written for other schedulers: recognised only to say how to write them here.

Nothing in this module accepts anything. It turns the common spellings of Quartz, EventBridge, Jenkins,
systemd, Celery and of crontabs with a zone prefix into errors whose `fix` is in this package's dialect.

Weakness: the translation is a hint for a person, not a converter: only plain cases are spelled out.
"""

from __future__ import annotations

import re

from tocsin.errors import ScheduleError

_SUNDAY = "count weekdays from 0 = Sunday, or use names such as `mon`"

# (pattern on the whole text, code, what it is, fix); the first hit wins.
_TEXTS: tuple[tuple[re.Pattern[str], str, str, str], ...] = (
    (
        re.compile(r"(CRON_)?TZ=\S*.*", re.S),
        "cron_zone",
        "the time zone stands inside the expression",
        "move the zone to `timeZone` and leave the five fields",
    ),
    (
        re.compile(r"rate\(.*", re.S),
        "cron_dialect",
        "this is an EventBridge rate",
        "write `{every}`",
    ),
    (
        re.compile(r"cron\(.*", re.S),
        "cron_dialect",
        "this is an EventBridge cron call",
        f"write its first five fields with `*` for `?`, and {_SUNDAY}; a year becomes `start` and `end`",
    ),
    (
        re.compile(r"crontab\(.*", re.S),
        "cron_dialect",
        "this is a Celery crontab call",
        "write its minute, hour, day_of_month, month_of_year and day_of_week as five fields",
    ),
    (
        re.compile(r"(datetime\.)?timedelta\(.*", re.S),
        "cron_dialect",
        "this is a Python timedelta",
        "write `{every}`",
    ),
    (
        re.compile(r"solar\(.*", re.S),
        "cron_dialect",
        "this is a Celery solar schedule; sun events are not supported",
        "write a fixed local time as five fields",
    ),
    (
        re.compile(r"(minutely|hourly|daily|weekly|monthly|quarterly|semiannually|yearly|annually)", re.I),
        "cron_dialect",
        "this is a systemd calendar word",
        "write five fields, or an alias such as `@daily`",
    ),
    (
        re.compile(r".*(\.\.|[0-9*]:[0-9*]).*", re.S),
        "cron_dialect",
        "this looks like a systemd OnCalendar or clock time",
        "write five fields: `30 7 * * 1-5` is 07:30 on Monday to Friday",
    ),
    (
        re.compile(r"[0-9.]+|[(0-9][0-9 +*/().-]*[*+/(-][0-9 +*/().-]*(?<=[0-9)])", re.S),
        "cron_dialect",
        "this is a number, not a schedule",
        "write `{every}` for an interval",
    ),
)

_ALIAS_FIXES = {
    "@reboot": "leave the schedule out and start the job by hand or by API: there is no machine that boots",
    "@once": "leave the schedule out for a job run by hand, or write `at` with an instant",
    "@quarterly": "write `0 0 1 1,4,7,10 *`",
    "@fortnightly": "write `every: 336h` with an `anchor`",
    "@biweekly": "write `every: 336h` with an `anchor`",
}


def refuse_foreign_text(text: str) -> None:
    """Raise ScheduleError if `text` as a whole is plainly another scheduler's spelling; else do nothing."""
    if text[0] in "\"'`" or text[-1] in "\"'`":
        raise ScheduleError(
            code="cron_field_syntax",
            field="cron",
            detail="there are quotes inside the expression",
            fix="remove the quotes: they came from the file or the variable that held it",
        )
    fields = text.split()
    for pattern, code, what, fix in _TEXTS:
        # Five to seven plain fields can look like arithmetic (`0 0 1 * 5`).
        if len(fields) in (5, 6, 7) and pattern is _TEXTS[-1][0]:
            continue
        if pattern.fullmatch(text):
            raise ScheduleError(
                code=code, field="cron", detail=what, fix=fix.replace("{every}", _every(text))
            )
    if len(fields) == 7:
        raise ScheduleError(
            code="cron_fields",
            field="cron",
            detail="seven fields: a year field is not known",
            fix="remove the last field and bound the schedule with `start` and `end`",
        )


_PLAIN_INTERVAL = re.compile(r"(?:rate\(([0-9]{1,6}) (second|minute|hour)s?\)|([0-9]{1,6}))")
_PLAIN_TIMEDELTA = re.compile(r"(?:datetime\.)?timedelta\((second|minute|hour)s=([0-9]{1,6})\)")


def _every(text: str) -> str:
    """The interval of a plain `rate(15 minutes)`, `timedelta(minutes=5)` or number, else an example."""
    if found := _PLAIN_INTERVAL.fullmatch(text):
        return f"every: {found[1] or found[3]}{(found[2] or 's')[0]}"
    if found := _PLAIN_TIMEDELTA.fullmatch(text):
        return f"every: {found[2]}{found[1][0]}"
    return "every: 15m"


def refuse_alias(text: str, known: tuple[str, ...]) -> None:
    """Raise ScheduleError for an alias that is not one of `known`."""
    fix = _ALIAS_FIXES.get(text.lower())
    if fix is None and text.lower() in known:
        fix = f"write `{text.lower()}` in lower case"
    elif fix is None and text.lower().startswith("@every"):
        fix = "write `every: 15m` with the wanted interval"
    raise ScheduleError(
        code="cron_alias",
        field="cron",
        detail=f"`{text[:30]}` is no known alias",
        fix=fix or f"write five fields, or one of {', '.join(known)}",
    )


_HASHED = re.compile(r"h(\([0-9]+-[0-9]+\))?(/[0-9]+)?")
_NEAREST = re.compile(r"(l-?[0-9]*|[0-9]+)w|lw|wl")
_BEFORE_LAST = re.compile(r"l-[0-9]+")
_LAST_FIRST = re.compile(r"l([0-7])")


def refuse_foreign_item(field: str, item: str, high: int) -> None:
    """Raise ScheduleError if an item is another dialect's; `high` is the largest value of the field."""
    detail = fix = ""
    if "?" in item:
        detail, fix = "`?` is Quartz's word for any day", f"write `*`, and {_SUNDAY}"
    elif _HASHED.fullmatch(item):
        fix = f"write a value from 0 to {high} and use `jitter` to spread the load"
        detail = "`H` is Jenkins's hash of the job name"
    elif field == "dayOfMonth" and _NEAREST.fullmatch(item):
        detail, fix = "`W` (the nearest working day) is not known", "write the day itself, or weekdays `1-5`"
    elif field == "dayOfMonth" and _BEFORE_LAST.fullmatch(item):
        detail, fix = "counting back from the last day is not known", "write `L` or a fixed day"
    elif field == "dayOfWeek" and (found := _LAST_FIRST.fullmatch(item)):
        detail, fix = f"`{item}` has the letter first", f"write `{found[1]}L`"
    elif field == "dayOfWeek" and item == "l":
        detail, fix = "`L` alone names no weekday", "write `6` for Saturday, or `6L` for the last Saturday"
    elif item == "r" or item.startswith("r("):
        detail, fix = "`R` (a random value) is not known", "write a value and use `jitter` to spread the load"
    if fix:
        raise ScheduleError(code="cron_dialect", field=field, detail=detail, fix=fix)
