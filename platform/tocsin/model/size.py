"""Sizes in bytes: `memory: 256Mi`, or a plain number of bytes. Answers write the largest unit that divides it."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})(Ki|Mi|Gi)?")
LARGEST = 1 << 44  # 16 TiB


def parse_size(value: Any) -> Any:
    """Bytes. Raises PydanticCustomError."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _wrong()
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise _wrong()
    size = int(match[1]) * _UNITS[match[2] or ""]
    if size > LARGEST:
        raise _wrong()
    return size


def size_text(size: int) -> str:
    """The canonical text of a size."""
    unit = next(unit for unit in ("Gi", "Mi", "Ki", "") if size % _UNITS[unit] == 0)
    return f"{size // _UNITS[unit]}{unit}"


def _wrong() -> PydanticCustomError:
    return PydanticCustomError(
        "size", "this is no size", {"fix": "write bytes, or a number with Ki, Mi or Gi such as 256Mi"}
    )


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(size_text, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\d{1,12}(Ki|Mi|Gi)?$"},
                {"type": "integer", "minimum": 0, "maximum": LARGEST},
            ],
            "examples": ["256Mi"],
        }
    ),
]
