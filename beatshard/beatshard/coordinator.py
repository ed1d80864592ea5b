"""The seam between a node and whatever says which partitions it holds.

A node calls `tick` every `tick_interval` seconds, and as soon as `changes` is set, from one thread of its own; the
other methods may be called from any thread, never block on the network, and answer from what the last tick saw.

The contract, held by the conformance suite:
- No partition is held by two members at once, as far as clocks and the service are honest. The epoch in
  Postgres protects the data when they are not.
- `held()` is empty the moment the node can no longer be sure of its membership: a suspended connection, or
  two thirds of the lease without an acknowledged renewal. It may fill again without having been released;
  whoever keeps an epoch for a partition must take it again when it comes back.
- A member takes only partitions that nobody holds. One that should move shows up in `surplus()`, stays held,
  and moves after `release()`.
- An identity that was lost never comes back: the node joins again under a new `node_id`.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Collection
from typing import Protocol


def new_identity() -> str:
    """A name that no process had before: host, pid and eight random hex digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Coordinator(Protocol):
    """Membership, and the partitions of one node."""

    @property
    def node_id(self) -> str:
        """The identity of this node; changes after its membership was lost."""

    @property
    def changes(self) -> threading.Event:
        """Set when the next tick should come at once; whoever ticks waits on it and clears it."""

    @property
    def tick_interval(self) -> float:
        """Seconds between two ticks at most."""

    def tick(self) -> None:
        """One bounded round: renew the membership, carry out releases, take what is free and ours.

        Raises CoordinationError when the service cannot be reached; the caller tries again.
        """

    def held(self) -> frozenset[int]:
        """The partitions that are this node's at this moment."""

    def surplus(self) -> frozenset[int]:
        """Held partitions that should move to another member: stop their work, then release them."""

    def release(self, partitions: Collection[int]) -> None:
        """Give these up: no longer held from now on, free for others after the next tick."""

    def members(self) -> frozenset[str]:
        """The live members that the last tick saw, this one among them."""

    def close(self) -> None:
        """Leave: everything is given up at once. Harmless when called twice."""


class CoordinationError(Exception):
    """The coordination service did not answer; the node keeps what it is still sure of."""
