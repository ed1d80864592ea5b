"""Whose turn it is: so many at once for each key, first come first served. Used on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Turns:
    """Lets `limit` at once through for each key; 0 lets all through. Keys that nobody uses are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._gates: dict[Hashable, tuple[asyncio.Semaphore, int]] = {}  # and how many are at it or wait

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._gates)

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and give it back at the end."""
        if not self._limit:
            yield
            return
        gate, users = self._gates.get(key) or (asyncio.Semaphore(self._limit), 0)
        self._gates[key] = (gate, users + 1)
        try:
            async with gate:
                yield
        finally:
            gate, users = self._gates.pop(key)
            if users > 1:
                self._gates[key] = (gate, users - 1)
