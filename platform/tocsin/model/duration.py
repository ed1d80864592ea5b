"""Durations: one field with two spellings.

A document may say `timeoutSec: 1200` or `timeout: 20m`; both at once is an error. Answers write `…Sec`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:\d{1,12}(?:\.\d{1,6})?(?:ms|s|m|h|d))+")


def parse_duration(text: str) -> float:
    """Seconds in `90s`, `1h30m`, `250ms`. Raises ValueError for anything else."""
    if len(text) > 64 or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a duration")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _plain(seconds: float) -> float | int:
    return int(seconds) if float(seconds).is_integer() else seconds


Seconds = Annotated[
    float, Field(strict=False, allow_inf_nan=False), PlainSerializer(_plain, return_type=float)
]


class Document(BaseModel):
    """The base of every document: camelCase outside, snake_case inside, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        field_title_generator=lambda name, _info: name.replace("_", " "),
    )

    @model_validator(mode="before")
    @classmethod
    def _short_durations(cls, value: Any) -> Any:
        """Turn `timeout: 20m` into `timeoutSec: 1200` for every field that ends in `_sec`."""
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for name in cls.model_fields:
            if not name.endswith("_sec"):
                continue
            alias, short = to_camel(name), to_camel(name.removesuffix("_sec"))
            if short not in value:
                continue
            if alias in value or name in value:
                raise PydanticCustomError(
                    "duration_twice",
                    "{short} and {alias} are both given",
                    {"short": short, "alias": alias, "fix": f"keep one of {short} and {alias}", "at": short},
                )
            value[alias] = _seconds(short, value.pop(short))
        return value


def _seconds(name: str, raw: object) -> float | None:
    if raw is None:
        return None
    if isinstance(raw, str):
        try:
            return parse_duration(raw.strip())
        except ValueError:
            pass
    raise PydanticCustomError(
        "duration_syntax",
        "{raw} is not a duration",
        {"raw": repr(raw)[:60], "fix": f"write {name} with a unit, such as 30s, 5m or 1h30m", "at": name},
    )
