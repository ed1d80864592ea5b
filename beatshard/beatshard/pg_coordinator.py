"""A coordinator on leases in Postgres (`nodes`, `partition_claims` of the first shard), for small clusters.

Protocol: a node is a row of `nodes` with an expiry by the database's clock; a partition is claimed by a row of
`partition_claims`. A tick is one transaction. It renews the node's own row first and so keeps it locked; a row
that has expired is not renewed but gone for good, and the node joins under a new identity. Whoever sees an
expired row deletes it together with its claims, after locking it: so a claim is never taken from a node whose
renewal is under way. Claims are inserted in the order of partitions, dead rows are locked with SKIP LOCKED, so
ticks do not wait for each other in turn.

The node trusts its claims for two thirds of the lease, counted on its monotonic clock from before the renewal
was sent, so it stops before the database can give them away.

Weakness: a process that is stopped between asking `held()` and acting on it acts late; the epoch stops that.
At rest a tick is two statements, one of them reading all claims (1,024 rows).
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

from beatshard import pg_coordinator_sql as sql
from beatshard.coordinator import CoordinationError
from beatshard.rendezvous import plan_ownership
from tocsin.clock import monotonic
from tocsin.ids import PARTITIONS

_FENCE = 2 / 3  # of the lease: after this a node no longer trusts its claims
_TICKS_PER_LEASE = 4


def new_identity() -> str:
    """A name that no process had before: host, pid and eight random hex digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What the last acknowledged tick saw; replaced as a whole, so that readers need no lock."""

    mine: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    members: frozenset[str] = frozenset()
    valid_until: float = float("-inf")


@dataclass(slots=True)
class _Round:
    """What one transaction found."""

    members: set[str] = field(default_factory=set)
    dead: bool = False
    claims: dict[str, set[int]] = field(default_factory=dict)


class PgCoordinator:
    """One node's membership; `connect` opens an autocommit connection to the first shard."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        *,
        lease: float,
        zone: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._connect = connect
        self._lease = lease
        self._zone = zone
        self._clock = clock
        self._conn: psycopg.Connection[Any] | None = None
        self._view = _View()
        self._lock = threading.Lock()  # guards _released against the tick
        self._released: set[int] = set()
        self._joined = False
        self._node_id = new_identity()

    @property
    def node_id(self) -> str:
        return self._node_id

    @property
    def tick_interval(self) -> float:
        return self._lease / _TICKS_PER_LEASE

    def held(self) -> frozenset[int]:
        view = self._view
        if self._clock() >= view.valid_until:
            return frozenset()
        with self._lock:
            return view.mine - self._released

    def surplus(self) -> frozenset[int]:
        return self.held() - self._view.wanted

    def members(self) -> frozenset[str]:
        return self._view.members

    def release(self, partitions: Collection[int]) -> None:
        with self._lock:
            self._released |= self._view.mine & set(partitions)

    def tick(self) -> None:
        try:
            self._tick()
        except psycopg.Error as error:
            self._drop_connection()
            raise CoordinationError(str(error).strip() or type(error).__name__) from error

    def close(self) -> None:
        self._view = _View()
        if self._joined:
            try:
                conn = self._connection()
                with conn.transaction():
                    conn.execute(sql.LEAVE, {"node": self._node_id})
            except psycopg.Error:
                pass  # the lease ends by itself
            self._joined = False
        self._drop_connection()

    def _tick(self) -> None:
        conn = self._connection()
        sent = self._clock()
        with self._lock:
            releasing = frozenset(self._released)
        with conn.transaction():
            self._renew(conn)
            if releasing:
                conn.execute(sql.RELEASE, {"node": self._node_id, "partitions": sorted(releasing)})
            found = self._read(conn)
            plan = plan_ownership(found.members, range(PARTITIONS))
            wanted = frozenset(p for p, member in plan.items() if member == self._node_id)
            mine = found.claims.get(self._node_id, set()) | self._claim(conn, wanted, found)
        with self._lock:
            self._released -= releasing
            self._view = _View(
                mine=frozenset(mine),
                wanted=wanted,
                members=frozenset(found.members),
                valid_until=sent + self._lease * _FENCE,
            )

    def _renew(self, conn: psycopg.Connection[Any]) -> None:
        args = {"node": self._node_id, "zone": self._zone, "lease": timedelta(seconds=self._lease)}
        if self._joined:
            if conn.execute(sql.RENEW, args).fetchone() is not None:
                return
            # Expired: others may have our partitions by now. This identity is dead, a new one holds nothing.
            self._view = _View()
            self._node_id = args["node"] = new_identity()
            self._joined = False
        conn.execute(sql.JOIN, args)
        self._joined = True

    def _read(self, conn: psycopg.Connection[Any]) -> _Round:
        found = self._read_once(conn)
        if found.dead:
            conn.execute(sql.BURY)
            found = self._read_once(conn)
        return found

    def _read_once(self, conn: psycopg.Connection[Any]) -> _Round:
        found = _Round()
        for node, alive, partitions in conn.execute(sql.READ):
            if alive:
                found.members.add(node)
            else:
                found.dead = True
            found.claims[node] = set(partitions)
        return found

    def _claim(self, conn: psycopg.Connection[Any], wanted: frozenset[int], found: _Round) -> set[int]:
        taken: set[int] = set().union(*found.claims.values())
        free = sorted(wanted - taken)
        if not free:
            return set()
        return {p for (p,) in conn.execute(sql.CLAIM, {"node": self._node_id, "partitions": free})}

    def _connection(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        return self._conn

    def _drop_connection(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
