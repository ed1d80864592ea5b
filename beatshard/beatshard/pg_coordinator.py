"""A coordinator on leases in Postgres (`nodes`, `partition_claims` of the first shard), for small clusters.

Protocol: a node is a row of `nodes` with an expiry by the database's clock; a partition is claimed by a row of
`partition_claims`. A tick is one transaction. It renews the node's own row first and so keeps it locked; a row
that has expired is not renewed but gone for good, and the node joins under a new identity. Whoever sees an
expired row deletes it together with its claims, after locking it: so a claim is never taken from a node whose
renewal is under way. Claims are inserted in the order of partitions, dead rows are locked with SKIP LOCKED, so
ticks do not wait for each other in turn.

The node trusts its claims for two thirds of the lease, counted on its monotonic clock from before the renewal
was sent, so it stops before the database can give them away.

Weakness: at rest a tick is two statements, one of them reading all claims (1,024 rows).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

from beatshard import pg_coordinator_sql as sql
from beatshard.coordinator import CoordinationError, new_identity
from beatshard.holdings import FENCE, Holdings, View
from beatshard.rendezvous import plan_ownership
from tocsin.clock import monotonic
from tocsin.ids import PARTITIONS

_TICKS_PER_LEASE = 4


@dataclass(slots=True)
class _Round:
    """What one transaction found."""

    members: set[str] = field(default_factory=set)
    dead: bool = False
    claims: dict[str, set[int]] = field(default_factory=dict)


class PgCoordinator(Holdings):
    """One node's membership; `connect` opens an autocommit connection to the first shard."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        *,
        lease: float,
        zone: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(clock)
        self._connect = connect
        self._lease = lease
        self._zone = zone
        self._conn: psycopg.Connection[Any] | None = None
        self._joined = False
        self._node_id = new_identity()

    @property
    def node_id(self) -> str:
        return self._node_id

    @property
    def tick_interval(self) -> float:
        return self._lease / _TICKS_PER_LEASE

    def tick(self) -> None:
        try:
            self._tick()
        except psycopg.Error as error:
            self._drop_connection()
            raise CoordinationError(str(error).strip() or type(error).__name__) from error

    def close(self) -> None:
        self._forget()
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
        releasing = self._releasing()
        with conn.transaction():
            self._renew(conn)
            if releasing:
                conn.execute(sql.RELEASE, {"node": self._node_id, "partitions": sorted(releasing)})
            found = self._read(conn)
            plan = plan_ownership(found.members, range(PARTITIONS))
            wanted = frozenset(p for p, member in plan.items() if member == self._node_id)
            mine = found.claims.get(self._node_id, set()) | self._claim(conn, wanted, found)
        self._given_back(releasing)
        view = View(
            mine=frozenset(mine),
            wanted=wanted,
            members=frozenset(found.members),
            valid_until=sent + self._lease * FENCE,
        )
        self._show(view, self._doubts)

    def _renew(self, conn: psycopg.Connection[Any]) -> None:
        args = {"node": self._node_id, "zone": self._zone, "lease": timedelta(seconds=self._lease)}
        if self._joined:
            if conn.execute(sql.RENEW, args).fetchone() is not None:
                return
            # Expired: others may have our partitions by now. This identity is dead, a new one holds nothing.
            self._forget()
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
