"""What a broker refused and waits to be tried again: all of it at once, after pauses that grow while it refuses."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")
FIRST_PAUSE = 0.1  # seconds
LONGEST_PAUSE = 5.0  # seconds
_CALM = 2 * LONGEST_PAUSE  # seconds without a refusal, after which the pauses begin anew


class Aside(Generic[T]):
    """Items in the order in which they were refused. Instants are monotonic seconds; one thread."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._until: float | None = None
        self._pause = FIRST_PAUSE
        self._refused_at = float("-inf")

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, now: float) -> None:
        """It has just been refused."""
        if now - self._refused_at > _CALM:
            self._pause = FIRST_PAUSE
        self._refused_at = now
        self._items.append(item)
        if self._until is None:
            self._until = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def due(self, now: float) -> list[T]:
        """What is to be tried again now; it is no longer here."""
        if self._until is None or now < self._until:
            return []
        items, self._items, self._until = self._items, [], None
        return items
