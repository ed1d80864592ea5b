"""JSON as a request may send it: RFC 8259, and nothing that a later stage would trip over.

Refused with 400 and a reason: bad UTF-8 or syntax, duplicate keys (the last would win silently), NaN and
Infinity and numbers that become infinite, nesting beyond MAX_DEPTH, NUL characters (Postgres cannot store
them) and lone surrogates (they are no text).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from tocsin_api.answers import ApiError

MAX_DEPTH = 64
_MAX_DIGITS = 300  # more digits than any double has
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


def loads(raw: bytes) -> Any:
    """The decoded value. Raises ApiError `invalid_json`."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(f"the body is not UTF-8 (byte {error.start})") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
    except json.JSONDecodeError as error:
        raise _refuse(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _refuse(f"the body is nested more than {MAX_DEPTH} deep") from None
    _check(value)
    return value


def canonical(value: Any) -> bytes:
    """One text for equal values, for fingerprints."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _refuse(detail: str) -> ApiError:
    return ApiError("invalid_json", detail)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        name = twice[:80].encode("utf-8", "replace").decode()
        raise ApiError(
            "invalid_json", f"the key {name!r} stands twice in one object", fix="keep one of the two"
        )
    return result


def _constant(name: str) -> Any:
    raise _refuse(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _refuse(f"the number {text[:40]} is too large")
    return number


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _refuse(f"a number has more than {_MAX_DIGITS} digits")
    return int(text)


def _check(value: Any) -> None:
    """Walk without recursion: depth, and the characters of every text."""
    level = [value]
    for _ in range(MAX_DEPTH):
        following: list[Any] = []
        for item in level:
            if isinstance(item, str):
                check_text(item)
            elif isinstance(item, dict):
                for key in item:
                    check_text(key)
                following.extend(item.values())
            elif isinstance(item, list):
                following.extend(item)
        if not following:
            return
        level = following
    raise _refuse(f"the body is nested more than {MAX_DEPTH} deep")


def check_text(text: str) -> None:
    """Raise ApiError for a text that the store cannot hold."""
    found = _FORBIDDEN.search(text)
    if found:
        what = "the character U+0000" if found[0] == "\x00" else "half of a surrogate pair"
        raise ApiError("invalid_json", f"a text holds {what}", fix="remove it from the text")
