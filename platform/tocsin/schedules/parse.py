"""Text or mapping in, a Schedule out; the one place that knows how a schedule is written.

A text is a cron expression, an alias, `every 15m`, `@every 15m` or `at <instant>`. A mapping has exactly one
of `cron`, `every` (or `everySec`) and `at`, and optional keys. A key whose value is None counts as absent,
so that a dumped request model parses. Every refusal is a ScheduleError naming the field and the fix.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from tocsin.clock import EPOCH
from tocsin.errors import ScheduleError
from tocsin.schedules.cron import MAX_TEXT
from tocsin.schedules.local import resolve_wall
from tocsin.schedules.model import AtSchedule, CronSchedule, DayMatch, EverySchedule, Fold, Gap, Schedule
from tocsin.schedules.values import choice, duration, instant, wall_or_instant, wrong_type
from tocsin.schedules.zones import zone_named

MIN_EVERY = timedelta(seconds=1)
MAX_EVERY = timedelta(days=366)
MAX_JITTER = timedelta(hours=1)
KEYS = (
    "cron", "every", "everySec", "at", "anchor", "timeZone", "gap", "fold", "start", "end", "jitter",
    "jitterSec", "dayMatch",
)  # fmt: skip
_EVERY = re.compile(r"@?every[ \t]+([^ \t]+)")
_AT = re.compile(r"at[ \t]+(.+)")


class _Common(TypedDict):
    time_zone: str
    gap: Gap
    fold: Fold
    start: datetime | None
    end: datetime | None
    jitter: timedelta


def parse(text_or_mapping: object) -> Schedule:
    """Parse and check a schedule. Pure. Raises ScheduleError for everything that cannot be accepted."""
    if isinstance(text_or_mapping, str):
        return _from_text(text_or_mapping)
    if isinstance(text_or_mapping, Mapping):
        return _from_mapping(_known_keys(text_or_mapping))
    raise wrong_type(
        "schedule", text_or_mapping, "a cron expression, or a mapping with `cron`, `every` or `at`"
    )


def _from_text(text: str) -> Schedule:
    if len(text) <= MAX_TEXT:
        stripped = text.strip(" \t")
        if found := _EVERY.fullmatch(stripped):
            return _from_mapping({"every": found[1]})
        if found := _AT.fullmatch(stripped):
            return _from_mapping({"at": found[1]})
    return CronSchedule(expression=text)


def _known_keys(mapping: Mapping[object, object]) -> dict[str, object]:
    known: dict[str, object] = {}
    for key, value in mapping.items():
        if not isinstance(key, str) or key not in KEYS:
            raise _unknown_key(key)
        if value is not None:
            known[key] = value
    return known


def _unknown_key(key: object) -> ScheduleError:
    flat = {name.lower(): name for name in KEYS}
    near = difflib.get_close_matches(str(key)[:40].lower().replace("_", ""), flat, n=1)
    return ScheduleError(
        code="unknown_field",
        field=str(key)[:40],
        detail=f"`{str(key)[:40]}` is no field of a schedule",
        fix=f"write `{flat[near[0]]}`" if near else f"remove it; known are {', '.join(KEYS)}",
    )


def _from_mapping(mapping: dict[str, object]) -> Schedule:
    every = _either(mapping, "every", "everySec")
    kinds = [key for key in ("cron", every, "at") if key in mapping]
    if len(kinds) != 1:
        raise ScheduleError(
            code="schedule_kind",
            field="schedule",
            detail=f"{' and '.join(f'`{key}`' for key in kinds) or 'none of the three kinds'} given",
            fix="write exactly one of `cron`, `every` and `at`",
        )
    if "anchor" in mapping and kinds[0] != every:
        raise _meaningless("anchor", kinds[0])
    if "dayMatch" in mapping and kinds[0] != "cron":
        raise _meaningless("dayMatch", kinds[0])
    common = _common(mapping)
    value = mapping[kinds[0]]
    match kinds[0]:
        case "cron":
            return _cron(value, mapping.get("dayMatch", "cron"), common)
        case "at":
            return _at(value, common, zoned="timeZone" in mapping)
        case _:
            return _every(every, value, mapping.get("anchor", EPOCH), common)


def _either(mapping: dict[str, object], text: str, seconds: str) -> str:
    """The key in use of a duration's two spellings; both at once is an error."""
    if text in mapping and seconds in mapping:
        raise ScheduleError(
            code="duration_twice",
            field=seconds,
            detail=f"`{text}` and `{seconds}` are the same field",
            fix=f"remove `{seconds}`",
        )
    if seconds not in mapping:
        return text
    if not isinstance(mapping[seconds], int | float) or isinstance(mapping[seconds], bool):
        raise wrong_type(seconds, mapping[seconds], "a number of seconds")
    return seconds


def _common(mapping: dict[str, object]) -> _Common:
    start = instant("start", mapping["start"]) if "start" in mapping else None
    end = instant("end", mapping["end"]) if "end" in mapping else None
    if start is not None and end is not None and end < start:
        raise ScheduleError(
            code="bounds_reversed", field="end", detail="`end` lies before `start`", fix="write a later `end`"
        )
    key = _either(mapping, "jitter", "jitterSec")
    value = mapping.get(key, 0)
    return _Common(
        time_zone=zone_named(mapping.get("timeZone", "UTC")).name,
        gap=Gap(choice("gap", mapping.get("gap", "next_valid"), tuple(Gap))),
        fold=Fold(choice("fold", mapping.get("fold", "first"), tuple(Fold))),
        start=start,
        end=end,
        jitter=duration(key, value, low=timedelta(0), high=MAX_JITTER),
    )


def _cron(value: object, day_match: object, common: _Common) -> Schedule:
    if not isinstance(value, str):
        raise wrong_type("cron", value, 'a quoted expression such as `"30 2 * * *"`')
    match = DayMatch(choice("dayMatch", day_match, tuple(DayMatch)))
    return CronSchedule(expression=value, day_match=match, **common)


def _every(key: str, value: object, anchor: object, common: _Common) -> Schedule:
    _refuse_clock_change_fields(key, common)
    interval = duration(key, value, low=MIN_EVERY, high=MAX_EVERY)
    return EverySchedule(interval=interval, anchor=instant("anchor", anchor), **common)


def _at(value: object, common: _Common, *, zoned: bool) -> Schedule:
    when = wall_or_instant("at", value)
    if when.utcoffset() is not None or not zoned:
        _refuse_clock_change_fields("at", common)
        return AtSchedule(instant=instant("at", when), **common)
    gap, fold = common["gap"], common["fold"]
    found = resolve_wall(zone_named(common["time_zone"]), when.replace(tzinfo=None), gap=gap, fold=fold)
    # The wall time is resolved once and for all: what is kept is the instant.
    common["gap"], common["fold"] = Gap.NEXT_VALID, Fold.FIRST
    return AtSchedule(instant=found.astimezone(UTC), **common)


def _refuse_clock_change_fields(kind: str, common: _Common) -> None:
    if common["gap"] is not Gap.NEXT_VALID:
        raise _meaningless("gap", kind)
    if common["fold"] is not Fold.FIRST:
        raise _meaningless("fold", kind)


def _meaningless(field: str, kind: str) -> ScheduleError:
    return ScheduleError(
        code="field_not_applicable",
        field=field,
        detail=f"`{field}` has no meaning beside this `{kind}`",
        fix=f"remove `{field}`",
    )
