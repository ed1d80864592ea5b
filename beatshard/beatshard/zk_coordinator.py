"""A coordinator on ZooKeeper: ephemeral nodes say who lives and who owns, the node's own clock when to stop.

Protocol: one session is one identity. A tick sends a heartbeat; at rest that is all the traffic there is. When a
watch has said that members or owners changed, both are read again, the plan is made anew, what is wanted and has
no owner is taken, in transactions of many partitions; released partitions are given back first. A partition
whose write ended unknown is neither held nor taken until ZooKeeper has been asked whose it is.

A suspended connection ends the trust at once (from kazoo's thread), and so do two thirds of the granted session
timeout without an answered heartbeat, counted on the monotonic clock from before it was sent: kazoo hears of
a suspension late when the process was stopped or the network swallows packets. A lost session ends the identity;
the next tick joins under a new name.

Weakness: somebody who deletes owner nodes by hand can make two nodes hold a partition until the next tick; then
the epoch in Postgres decides. A server that is stopped, not dead, is noticed after seven twelfths of the
session, which may cost the session.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from kazoo.exceptions import NoAuthError, NoNodeError

from beatshard.coordinator import CoordinationError, new_identity
from beatshard.holdings import FENCE, Holdings, View
from beatshard.rendezvous import plan_ownership
from beatshard.zk_session import ERRORS, Write, ZkSession
from tocsin.clock import monotonic
from tocsin.coordination import ZooKeeperAddress
from tocsin.ids import PARTITIONS

log = logging.getLogger(__name__)
_TICKS_PER_SESSION = 4


class ZkCoordinator(Holdings):
    """One node's membership; see the module."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        *,
        lease: float,
        zone: str = "",
        auth: tuple[str, str] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(clock)
        self._address = address
        self._lease = lease
        self._zone = zone
        self._auth = auth
        self._node_id = new_identity()
        self._session: ZkSession | None = None
        self._zones: dict[str, str] = {}
        # Of the ticking thread only:
        self._mine: set[int] = set()
        self._wanted: frozenset[int] = frozenset()
        self._owners: set[int] = set()
        self._unsure: list[Write] = []

    @property
    def node_id(self) -> str:
        return self._node_id

    @property
    def tick_interval(self) -> float:
        session = self._session
        return min(self._lease, session.timeout if session else self._lease) / _TICKS_PER_SESSION

    @property
    def zones(self) -> dict[str, str]:
        """The zone of each live member that the last tick saw."""
        return dict(self._zones)

    def tick(self) -> None:
        try:
            if self._session is not None and self._session.lost:
                self._drop("its session ended")
            session = self._session or self._join()
            if not session.connected:
                raise CoordinationError(f"no connection to ZooKeeper at {','.join(self._address.hosts)}")
            self._round(session)
        except NoAuthError as error:
            raise CoordinationError(
                f"ZooKeeper refuses access below {self._address.chroot}: set TOCSIN_ZOOKEEPER_AUTH to the "
                "user:password that made it"
            ) from error
        except NoNodeError as error:
            self._drop("its node in ZooKeeper is gone")
            raise CoordinationError("the membership is gone; the node joins anew") from error
        except ERRORS as error:
            text = str(error).strip() or type(error).__name__
            raise CoordinationError(f"ZooKeeper at {','.join(self._address.hosts)}: {text}") from error

    def close(self) -> None:
        session, self._session = self._session, None
        self._clear()
        if session is not None:
            session.stop()

    def _join(self) -> ZkSession:
        session = ZkSession(self._address, auth=self._auth, timeout=self._lease, on_event=self._on_event)
        try:
            session.start(self._node_id, self._zone)
        except BaseException:
            session.stop()
            self._node_id = new_identity()  # the old one may have been written
            raise
        if session.timeout != self._lease:
            log.warning("session_timeout asked=%.1f granted=%.1f", self._lease, session.timeout)
        self._session = session
        return session

    def _drop(self, why: str) -> None:
        log.warning("membership_lost node=%s why=%s", self._node_id, why)
        self.close()
        self._node_id = new_identity()
        self.changes.set()

    def _clear(self) -> None:
        self._forget()
        self._mine.clear()
        self._owners.clear()
        self._unsure.clear()
        self._wanted = frozenset()
        self._zones = {}

    def _on_event(self, doubt: bool) -> None:
        if doubt:
            self._doubt()
        self.changes.set()

    def _round(self, session: ZkSession) -> None:
        doubts = self._doubts
        sent = self._clock()
        deadline = session.heartbeat()
        valid_until = sent + session.timeout * FENCE
        self._show(replace(self._view, valid_until=valid_until), doubts)
        self._resolve(session, deadline)
        self._give_back(session, deadline)
        if session.changed():
            self._look(session, deadline)
        self._take(session, deadline)
        view = View(
            mine=frozenset(self._mine),
            wanted=self._wanted,
            members=frozenset(self._zones),
            valid_until=valid_until,
        )
        self._show(view, doubts)

    def _resolve(self, session: ZkSession, deadline: float) -> None:
        settled = [write for write in self._unsure if write.settled]
        if not settled:
            return
        asked = {p for write in settled for p in write.partitions}
        for partition, ours in session.owned_by(self._node_id, asked, deadline).items():
            (self._mine.add if ours else self._mine.discard)(partition)
        self._unsure = [write for write in self._unsure if write not in settled]

    def _give_back(self, session: ZkSession, deadline: float) -> None:
        released = self._releasing() - self._in_flight()
        self._given_back(released - self._mine)
        for write in session.give_back(released & self._mine):
            if self._settle(write, deadline):
                self._mine.difference_update(write.partitions)
                self._given_back(write.partitions)

    def _look(self, session: ZkSession, deadline: float) -> None:
        before = self._zones
        self._zones, self._owners = session.read(deadline)
        if self._node_id not in self._zones:
            raise NoNodeError
        self._mine &= self._owners
        if self._zones != before:
            plan = plan_ownership(self._zones.keys(), range(PARTITIONS))
            self._wanted = frozenset(p for p, member in plan.items() if member == self._node_id)
            _say_who_is_there(before, self._zones)

    def _take(self, session: ZkSession, deadline: float) -> None:
        free = self._wanted - self._owners - self._mine - self._in_flight()
        for write in session.take(self._node_id, free):
            if self._settle(write, deadline):
                self._mine.update(write.partitions)

    def _settle(self, write: Write, deadline: float) -> bool:
        if write.done(deadline):
            return True
        self._unsure.append(write)
        self.changes.set()
        return False

    def _in_flight(self) -> set[int]:
        return {p for write in self._unsure for p in write.partitions}


def _say_who_is_there(before: dict[str, str], now: dict[str, str]) -> None:
    zones = Counter(now.values())
    shown = ",".join(f"{zone or '-'}:{count}" for zone, count in sorted(zones.items()))
    log.info("members_changed members=%d zones=%s", len(now), shown)
    for zone in set(before.values()) - zones.keys():
        log.warning("zone_lost zone=%s members=%d", zone or "-", list(before.values()).count(zone))
