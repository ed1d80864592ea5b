"""Cursors: where a list goes on, opaque to the caller.

A cursor is base64url of the last key and a checksum over the key and the filters, so a damaged cursor, or one
used with other filters, is refused instead of giving a wrong page. There is no secret in it: the checksum
finds mistakes, not forgers, and a forged cursor gives nothing that the list itself would not give. A cursor
does not expire, because it names a place in an order and not a snapshot.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping

from tocsin.errors import TocsinError

_SUM = 8
_LONGEST = 512


class BadCursorError(TocsinError):
    """The text is no cursor of this list."""

    code = "bad_cursor"


def encode(key: str, filters: Mapping[str, object]) -> str:
    """The cursor that goes on after the item with this key."""
    return base64.urlsafe_b64encode(_sum(key, filters) + key.encode()).rstrip(b"=").decode()


def decode(cursor: str, filters: Mapping[str, object]) -> str:
    """The key in a cursor. Raises BadCursorError."""
    try:
        if len(cursor) > _LONGEST:
            raise ValueError
        raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        key = raw[_SUM:].decode()
    except (ValueError, binascii.Error):
        raise BadCursorError("this is no cursor") from None
    if raw[:_SUM] != _sum(key, filters):
        raise BadCursorError("this cursor belongs to a list with other filters, or is damaged")
    return key


def _sum(key: str, filters: Mapping[str, object]) -> bytes:
    text = json.dumps([key, sorted(filters.items())], default=str)
    return hashlib.blake2b(text.encode(), digest_size=_SUM).digest()
