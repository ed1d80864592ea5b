"""Durations: one field with two spellings.

A document may say `timeoutSec: 1200` or `timeout: 20m`; both at once is an error. Answers write `…Sec`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from tocsin.errors import ScheduleError
from tocsin.schedules import values

_LONGEST = timedelta(days=36_500)


def _plain(seconds: float) -> float | int:
    return int(seconds) if float(seconds).is_integer() else seconds


def _a_number(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise PydanticCustomError(
            "float_type",
            "input should be a number of seconds",
            {"fix": "write a number without quotes, or a text such as 90s under the name without Sec"},
        )
    return value


Seconds = Annotated[
    float,
    Field(strict=False, allow_inf_nan=False),
    BeforeValidator(_a_number),
    PlainSerializer(_plain, return_type=float | int),
]
# A document says `true` and `3`; `yes`, `"3"` and 1 for true are slips of the pen that a person wants to hear of.
# (Query parameters are text and stay lax.)
Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]


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


def _seconds(name: str, raw: object) -> float | int | None:
    if raw is None:
        return None
    try:
        if not isinstance(raw, str):
            raise values.wrong_type(name, raw, f"{name} with a unit, such as 30s, 5m or 1h30m")
        span = values.duration(name, raw.strip(), low=timedelta(0), high=_LONGEST)
    except ScheduleError as error:
        raise PydanticCustomError(
            error.code,
            "{detail}",
            {"detail": error.detail, "fix": error.fix, "at": name},
        ) from None
    return values.seconds_number(span)
