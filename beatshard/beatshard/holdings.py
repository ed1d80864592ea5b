"""What a coordinator is sure of, between its tick and the threads that ask. Any thread may call any method.

Protocol: a tick publishes a whole view with the instant (on the monotonic clock) until which it may be trusted.
`doubt` ends the trust at once and outdates the tick that is under way: what that tick learned was learned before
the doubt arose, so only a tick that began afterwards restores the trust.

Weakness: whoever asked `held()` and is stopped before acting on it acts late; the epoch in Postgres stops that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

FENCE = (
    2 / 3
)  # of the lease: after this without an acknowledged renewal a node no longer trusts what it holds
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What an acknowledged tick saw; replaced as a whole, so that readers need no lock."""

    mine: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    members: frozenset[str] = frozenset()
    valid_until: float = _NEVER


class Holdings:
    """The part of a coordinator that answers; see the module."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._view = View()
        self._released: set[int] = set()
        self._doubts = 0
        self.changes = threading.Event()

    def held(self) -> frozenset[int]:
        """The partitions that are this node's at this moment."""
        with self._lock:
            view = self._view
            if self._clock() >= view.valid_until:
                return frozenset()
            return view.mine - self._released

    def surplus(self) -> frozenset[int]:
        """Held partitions that should move to another member."""
        return self.held() - self._view.wanted

    def members(self) -> frozenset[str]:
        """The live members that the last tick saw."""
        return self._view.members

    def release(self, partitions: Collection[int]) -> None:
        """No longer held from now on; the next tick, which is asked for, gives them back."""
        with self._lock:
            new = (self._view.mine & set(partitions)) - self._released
            self._released |= new
        if new:
            self.changes.set()

    def _releasing(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._released)

    def _given_back(self, partitions: Collection[int]) -> None:
        with self._lock:
            self._released.difference_update(partitions)
            self._view = replace(self._view, mine=self._view.mine - set(partitions))

    def _show(self, view: View, doubts: int) -> None:
        """Publish what a tick saw that began when there had been so many doubts."""
        with self._lock:
            self._view = view if doubts == self._doubts else replace(view, valid_until=_NEVER)

    def _doubt(self) -> None:
        with self._lock:
            self._doubts += 1
            self._view = replace(self._view, valid_until=_NEVER)

    def _forget(self) -> None:
        with self._lock:
            self._doubts += 1
            self._view = View()
            self._released.clear()
