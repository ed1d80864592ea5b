"""The one place that reads this machine's clock.

What is due is decided by the database's clock (`clock_timestamp()`); a process's own clock only decides
when to look. Pure code takes `now` as an argument instead of calling this module.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def now() -> datetime:
    """The machine's wall clock, aware, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds on a clock that never steps: for leases, fences and timeouts inside one process."""
    return time.monotonic()


def to_micros(instant: datetime) -> int:
    """Whole microseconds since 1970-01-01T00:00:00Z; exact, no floating point.

    Raises ValueError for a naive instant, because its meaning would depend on the machine.
    """
    if instant.tzinfo is None:
        raise ValueError("a naive datetime has no instant: give it a time zone")
    return (instant - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC instant that lies `micros` microseconds after 1970-01-01T00:00:00Z."""
    return EPOCH + timedelta(microseconds=micros)
