"""When a child that ended starts again. Pure: every call takes the time.

The pause doubles with each crash within CRASH_WINDOW; the CRASHES-th crash in it is the last.
"""

from __future__ import annotations

from collections import defaultdict, deque

CRASHES = 5
CRASH_WINDOW = 60.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0


class Restarts:
    """The crashes of every child, and what is due."""

    def __init__(self) -> None:
        self._crashes: dict[str, deque[float]] = defaultdict(deque)
        self._due: dict[str, float] = {}

    def ended(self, name: str, now: float) -> float | None:
        """The pause before it starts again, or None when it has ended too often."""
        crashes = self._crashes[name]
        crashes.append(now)
        while crashes[0] <= now - CRASH_WINDOW:
            crashes.popleft()
        if len(crashes) >= CRASHES:
            return None
        pause = min(_FIRST_PAUSE * 2.0 ** (len(crashes) - 1), _LONGEST_PAUSE)
        self._due[name] = now + pause
        return pause

    def wait(self, now: float) -> float | None:
        """How long until something is due; None when nothing is."""
        return max(min(self._due.values()) - now, 0.0) if self._due else None

    def take_due(self, now: float) -> list[str]:
        """The children to start now."""
        names = [name for name, due in self._due.items() if due <= now]
        for name in names:
            del self._due[name]
        return names
