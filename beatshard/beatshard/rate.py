"""A token bucket: how much may be done at once, and how much a second. Pure; takes the time."""

from __future__ import annotations


class Bucket:
    """Starts full with one second's worth."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._tokens = per_second
        self._at: float | None = None

    def set_rate(self, per_second: float) -> None:
        """Fill faster or slower from here on."""
        self._rate = per_second

    def available(self, now: float) -> int:
        """Whole tokens there are at `now` (seconds on a monotonic clock)."""
        if self._at is not None:
            self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return int(self._tokens)

    def take(self, count: int) -> None:
        """Use some; more than there are makes the next wait longer."""
        self._tokens -= count
