"""The attempts in progress of one worker process, and the slots that bound them.

An attempt holds its slot from before its claim until its end is written, so neither running attempts nor
unwritten results can pile up. Used on the executor's loop only.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import Enum

from tocsin.ids import RunKey
from tocsin.store.leases import Claimed, Result

logger = logging.getLogger(__name__)


class Stop(Enum):
    """Why an attempt is cut short on this worker."""

    CANCELLED = "cancelled"  # somebody asked
    LOST = "lost"  # the lease is gone: another worker may be at it
    DRAIN = "drain"  # this worker ends


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One attempt in progress. Instants are on the monotonic clock."""

    claimed: Claimed
    deadline: float
    lease_end: float
    secret: bytes = b""  # that the lease's token is made from; see `tocsin.callback_token`
    task: asyncio.Task[None] | None = None
    begun: bool = False
    stopped: Stop | None = None
    result: Result | None = None  # set when it is over and waits to be written

    @property
    def key(self) -> RunKey:
        return self.claimed.lease.key

    def stop(self, why: Stop) -> None:
        """Cut it short; the first reason stays. One that is over already is left alone."""
        if self.stopped is None and self.result is None:
            self.stopped = why
            if why is Stop.LOST:
                logger.warning("%s is cut: its lease is lost", self.key)
            # A task that has not begun would be cancelled without ever seeing why.
            if self.task is not None and self.begun:
                self.task.cancel()


class Attempts:
    """The attempts in progress by run."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free = slots
        self._closed = False
        self._by_key: dict[RunKey, Attempt] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: RunKey) -> Attempt | None:
        """The attempt of this run, if it is in progress here."""
        return self._by_key.get(key)

    def all(self) -> list[Attempt]:
        """A copy, safe to go through while attempts come and go."""
        return list(self._by_key.values())

    @property
    def free(self) -> int:
        """Slots that an attempt can have now."""
        return 0 if self._closed else self._free

    def close(self, closed: bool = True) -> None:
        """Let no attempt begin until `close(False)`: what executes them is not there."""
        self._closed = closed
        self._changed.set()

    async def reserve(self, wanted: int) -> int:
        """Take up to `wanted` slots, at least one: waits while none is free."""
        while self.free == 0:
            self._changed.clear()
            await self._changed.wait()
        taken = min(wanted, self._free)
        self._free -= taken
        return taken

    def release(self, count: int) -> None:
        """Give slots back."""
        self._free += count
        self._changed.set()

    def add(self, attempt: Attempt) -> None:
        """Begin; its slot has been reserved."""
        self._by_key[attempt.key] = attempt

    def remove(self, attempt: Attempt) -> None:
        """End; its slot is free again."""
        # A lost attempt may have been claimed anew by this very worker meanwhile.
        if self._by_key.get(attempt.key) is attempt:
            del self._by_key[attempt.key]
        self.release(1)

    async def wait_empty(self) -> None:
        """Return when no attempt is in progress."""
        while self._by_key:
            self._changed.clear()
            await self._changed.wait()
