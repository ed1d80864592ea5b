"""pydantic's errors as problems: a pointer to what the user wrote, the words, and a fix for every one.

pydantic names fields by their canonical path, with tags of unions in it; a document may have said `timeout`
for `timeoutSec` or `concurrency: skip` for an object. So the path is walked through the raw input and ends
where the input does.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tocsin.errors import InvalidError, Problem
from tocsin.model.job import JobDocument
from tocsin.model.status import SERVER_FIELDS
from tocsin.schedules.parse import KEYS as SCHEDULE_KEYS
from tocsin.schedules.values import duration_text

LIMIT = 50  # problems in one answer
_FIXES = {
    "missing": "add {name}",
    "string_type": "write a text; in YAML, put it in quotes",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "finite_number": "write a finite number",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "datetime_from_date_parsing": "write an instant such as 2026-03-08T02:30:00Z",
    "datetime_parsing": "write an instant such as 2026-03-08T02:30:00Z",
    "timezone_aware": "add Z or an offset to the instant",
    "dict_type": "write an object",
    "model_type": "write an object",
    "model_attributes_type": "write an object",
    "tuple_type": "write a list",
    "list_type": "write a list",
    "literal_error": "write {expected}",
    "enum": "write {expected}",
    "greater_than": "write a value greater than {gt}",
    "greater_than_equal": "write {ge} or more",
    "less_than": "write a value less than {lt}",
    "less_than_equal": "write {le} or less",
    "string_too_short": "write at least {min_length} characters",
    "string_too_long": "write at most {max_length} characters",
    "too_long": "keep at most {max_length} entries",
    "too_short": "give at least {min_length} entries",
}
_BOUNDS = ("gt", "ge", "lt", "le")
_NAME_FIX = (
    "use letters, digits, `.`, `_` and `-`, a letter or digit first and last, and at most 128 characters"
)


_M = TypeVar("_M", bound=BaseModel)


def parse_job(raw: Any) -> JobDocument:
    """The job document in decoded JSON. Raises InvalidError that names every problem."""
    return parse(JobDocument, raw)


def parse(model: type[_M], raw: Any) -> _M:
    """A document of this model. Raises InvalidError that names every problem."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise InvalidError(problems_of(error, model, raw)) from None


def problems_of(error: ValidationError, model: type[BaseModel], raw: Any) -> list[Problem]:
    """At most LIMIT problems, in the order of pydantic's."""
    return [_problem(e, model, raw) for e in error.errors(include_url=False)[:LIMIT]]


def _problem(error: ErrorDetails, model: type[BaseModel], raw: Any) -> Problem:
    context = error.get("ctx", {})
    parts = [*error["loc"], *_deeper(error)]
    path = _written(parts, raw)
    kind = error["type"]
    return Problem(
        pointer=pointer(path),
        code={"extra_forbidden": "unknown_field", "missing": "missing"}.get(kind, kind),
        detail=_detail(error, path),
        fix=str(context["fix"]) if "fix" in context else _fix(kind, context, path, model),
    )


def _deeper(error: ErrorDetails) -> Sequence[str]:
    """What our own validators add: the field inside the value they looked at."""
    context = error.get("ctx", {})
    if "at" in context:
        return (str(context["at"]),)
    field = context.get("field")
    if field in (None, "schedule") or not isinstance(error["input"], dict):
        return ()
    if field in SCHEDULE_KEYS or error["type"] == "unknown_field":
        return (str(field),)
    # A part of the cron expression, such as its hour.
    return ("cron",) if "cron" in error["input"] else ()


def _written(parts: Sequence[str | int], raw: Any) -> list[str | int]:
    """The path through the raw input: other spellings are followed, names that are not in it left out."""
    path: list[str | int] = []
    for index, part in enumerate(parts):
        if isinstance(raw, dict):
            key = next((k for k in _spellings(part) if k in raw), None)
            if key is None:
                if index == len(parts) - 1:
                    path.append(part)  # a field that is missing
                continue  # the tag of a union
            path.append(key)
            raw = raw[key]
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            path.append(part)
            raw = raw[part]
        elif isinstance(raw, list):
            continue
        else:
            break  # a shorthand: the value stands for a whole object
    return path


def _spellings(part: str | int) -> tuple[str, ...]:
    text = str(part)
    return (text, text.removesuffix("Sec"))


def pointer(path: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901) as a URI fragment."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1")[:80] for part in path)


def _detail(error: ErrorDetails, path: Sequence[str | int]) -> str:
    name = str(path[-1])[:80] if path else "the document"
    match error["type"]:
        case "missing":
            return f"{name} is missing"
        case "extra_forbidden":
            return f"{name} is not a field here"
        case "string_pattern_mismatch":
            return f"{str(error['input'])[:80]!r} has another form than {name} must have"
    message = error["msg"]
    return message[:1].lower() + message[1:] if message.startswith("Input ") else message


def _fix(kind: str, context: dict[str, Any], path: Sequence[str | int], model: type[BaseModel]) -> str:
    name = str(path[-1])[:80] if path else "the document"
    if kind == "extra_forbidden" and len(path) == 1 and name in SERVER_FIELDS:
        return f"remove {name}; the server gives it"
    if kind == "extra_forbidden":
        known = _fields(model, path[:-1])
        near = difflib.get_close_matches(name.lower(), {k.lower(): k for k in known}, n=1)
        found = next((k for k in known if near and k.lower() == near[0]), None)
        return f"write {found} instead" if found else f"remove {name}"
    if kind == "string_pattern_mismatch" and name == "name":
        return _NAME_FIX
    template = _FIXES.get(kind)
    if template is None:
        return f"change {name} to a value that docs/api.md describes"
    return template.format(**{"name": name, **context, **_bounds(context, path, model)})


def _bounds(context: dict[str, Any], path: Sequence[str | int], model: type[BaseModel]) -> dict[str, str]:
    """The limits as they are to be written: `24h` for `timeout`, 86400 for `timeoutSec`."""
    known = _fields(model, path[:-1])
    span = bool(path) and f"{path[-1]}Sec" in known
    return {
        key: duration_text(timedelta(seconds=context[key])) if span else f"{context[key]:.15g}"
        for key in _BOUNDS
        if isinstance(context.get(key), int | float)
    }


def _fields(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The names that may stand at this path of a document."""
    for part in path:
        field = next((f for f in model.model_fields.values() if part in (f.alias, f.title)), None)
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    names = [field.alias or name for name, field in model.model_fields.items()]
    return names + [name.removesuffix("Sec") for name in names if name.endswith("Sec")]
