"""Places in texts that are filled in for each run: `{{ runId }}` and a few more. Pure.

The names are a closed list; there is no expression, no filter, no look-up. What is filled in is made by tocsin
and harmless wherever it stands: letters, digits and `-:._`. Values go into finished structures (a header, the texts
inside a JSON document), never into a text that is parsed afterwards, so nothing can be injected.

`{{ "{{" }}` writes two braces.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import PydanticCustomError

from tocsin.clock import to_micros
from tocsin.errors import ScheduleError
from tocsin.ids import RunKey
from tocsin.schedules.zones import zone_named

NAMES = ("runId", "attempt", "jobName", "nominalTime", "nominalDate")
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_BRACES = '"{{"'


def check_template(text: str, at: str | None = None) -> None:
    """Raise PydanticCustomError for a place that has no known name; `at` is the field inside the value."""
    if "{{" in _PLACE.sub("", text):
        raise _error("template_open", "a {{ has no }}", "close it with }}", at)
    for match in _PLACE.finditer(text):
        name = match[1].strip()
        if name not in NAMES and name != _BRACES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            fix = "write {{ " + near[0] + " }}" if near else f"write one of {', '.join(NAMES)}"
            raise _error("template_name", f"{name[:80]!r} is no name that a template knows", fix, at)


def _error(code: str, detail: str, fix: str, at: str | None) -> PydanticCustomError:
    context = {"detail": detail, "fix": fix + ', or {{ "{{" }} for two braces'}
    kind: Any = code  # pydantic wants a literal
    return PydanticCustomError(kind, "{detail}", context if at is None else {**context, "at": at})


def check_json_template(value: Any) -> None:
    """The same for every text inside a JSON document; names of fields are not filled in."""

    def checked(text: str) -> str:
        check_template(text)
        return text

    map_texts(value, checked)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its places filled in. Raises KeyError for a name that is not in `values`."""
    return _PLACE.sub(lambda match: _value(match[1].strip(), values), text)


def fill_json(value: Any, values: Mapping[str, str]) -> Any:
    """A copy of a JSON document with the places in its texts filled in."""
    return map_texts(value, lambda text: fill(text, values))


def run_values(key: RunKey, *, attempt: int, job_name: str, time_zone: str | None) -> dict[str, str]:
    """What the names stand for in one attempt; `time_zone` is the schedule's, UTC when there is none."""
    return {
        "runId": str(key),
        "attempt": str(attempt),
        "jobName": job_name,
        "nominalTime": key.scheduled_at.isoformat().replace("+00:00", "Z"),
        "nominalDate": _local(key.scheduled_at, time_zone).date().isoformat(),
    }


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of a JSON document with every text in it changed; at most as deep as the document may be."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(item, change) for item in value]
        case dict():
            return {name: map_texts(item, change) for name, item in value.items()}
        case _:
            return value


def _value(name: str, values: Mapping[str, str]) -> str:
    return "{{" if name == _BRACES else values[name]


def _local(at: datetime, time_zone: str | None) -> datetime:
    try:
        seconds = zone_named(time_zone or "UTC").offset(to_micros(at) // 1_000_000)
    except ScheduleError:
        seconds = 0  # a zone that only a newer release knows
    return at + timedelta(seconds=seconds)
