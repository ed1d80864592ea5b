"""The coordinator's contract, for each implementation: no partition is held twice, and none stays without a holder.

The harness makes members, kills them and moves their clocks; another implementation adds a harness of its own.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from kazoo.client import KazooClient

from beatshard.coordinator import CoordinationError, Coordinator
from beatshard.pg_coordinator import PgCoordinator
from beatshard.zk_coordinator import ZkCoordinator
from tocsin.coordination import parse_coordinator
from tocsin.ids import PARTITIONS
from tocsin.store.shards import connect

ALL = frozenset(range(PARTITIONS))
LEASE = 60.0  # long: what ends a lease in these tests is the harness, never the time that they take


class Harness(Protocol):
    """Makes members of one cluster, each with a clock of its own that the tests drive."""

    clocks: dict[Coordinator, float]

    def member(self) -> Coordinator: ...

    def unreachable(self) -> Coordinator:
        """A member whose service is not there."""

    def expire(self, member: Coordinator) -> None:
        """The member has not renewed for a whole lease: both its own clock and the service say so."""

    def close(self) -> None: ...


class Clocks:
    """One clock a member, at 0 until a test moves it."""

    def __init__(self) -> None:
        self.clocks: dict[Coordinator, float] = {}

    def made(self, make: Callable[[Callable[[], float]], Coordinator]) -> Coordinator:
        made: list[Coordinator] = []
        coordinator = make(lambda: self.clocks.get(made[0], 0.0) if made else 0.0)
        made.append(coordinator)
        self.clocks[coordinator] = 0.0
        return coordinator


class PgHarness(Clocks):
    """Members on Postgres leases. A dead member's row is set to expired, as time would have done."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._admin = connect(url)

    def member(self) -> Coordinator:
        return self.made(lambda clock: PgCoordinator(lambda: connect(self._url), lease=LEASE, clock=clock))

    def unreachable(self) -> Coordinator:
        return PgCoordinator(lambda: connect("postgresql://127.0.0.1:1/none"), lease=LEASE)

    def expire(self, member: Coordinator) -> None:
        self.clocks[member] += LEASE
        self._admin.execute(
            "UPDATE nodes SET expires_at = clock_timestamp() - interval '1 s' WHERE node_id = %s",
            (member.node_id,),
        )

    def close(self) -> None:
        for member in self.clocks:
            member.close()
        self._admin.close()


class ZkHarness(Clocks):
    """Members on ZooKeeper. A dead member's session is ended by a second client that takes it over."""

    def __init__(self, coordinator: str) -> None:
        super().__init__()
        address = parse_coordinator(coordinator)
        assert address is not None
        self._address = address

    def member(self) -> Coordinator:
        return self.made(lambda clock: ZkCoordinator(self._address, lease=LEASE, clock=clock))

    def unreachable(self) -> Coordinator:
        address = parse_coordinator("zookeeper://127.0.0.1:1/none")
        assert address is not None
        return ZkCoordinator(address, lease=LEASE)

    def expire(self, member: Coordinator) -> None:
        self.clocks[member] += LEASE
        assert isinstance(member, ZkCoordinator)
        if member._session is None or member._session.lost:
            return
        client = member._session._client
        lost = threading.Event()
        client.add_listener(lambda state: lost.set() if state == "LOST" else None)
        twin = KazooClient(",".join(self._address.hosts), client_id=client.client_id)
        twin.start()
        twin.stop()
        twin.close()
        assert lost.wait(30), "the member did not hear that its session has ended"

    def close(self) -> None:
        for member in self.clocks:
            member.close()


@pytest.fixture(params=["postgres", "zookeeper"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    harness: Harness
    if request.param == "postgres":
        harness = PgHarness(request.getfixturevalue("database_url"))
    else:
        harness = ZkHarness(request.getfixturevalue("zookeeper"))
    yield harness
    harness.close()


def settle(*members: Coordinator, rounds: int = 4) -> None:
    """Tick everybody and hand over what should move, until nothing does."""
    for _ in range(rounds):
        for member in members:
            member.tick()
            member.release(member.surplus())


def test_the_first_member_holds_everything(harness: Harness) -> None:
    member = harness.member()
    assert member.held() == frozenset()
    member.tick()
    assert member.held() == ALL
    assert member.surplus() == frozenset()
    assert member.members() == {member.node_id}


def test_a_second_member_gets_its_share_only_after_the_release(harness: Harness) -> None:
    first, second = harness.member(), harness.member()
    first.tick()
    second.tick()
    assert second.held() == frozenset(), "nothing is taken from a live holder"
    first.tick()
    moving = first.surplus()
    assert 350 < len(moving) < 675
    assert first.held() == ALL, "what should move is still held"
    first.release(moving)
    assert first.held() == ALL - moving
    second.tick()
    assert second.held() == frozenset(), "released, but not yet given back by a tick"
    first.tick()
    second.tick()
    assert second.held() == moving


def test_a_dead_member_is_replaced(harness: Harness) -> None:
    first, second = harness.member(), harness.member()
    settle(first, second)
    assert first.held()
    harness.expire(first)
    assert first.held() == frozenset(), "it knows by its own clock"
    second.tick()
    assert second.held() == ALL
    assert second.members() == {second.node_id}
    old = first.node_id
    first.tick()
    assert first.node_id != old, "an identity that was lost never comes back"
    assert first.held() == frozenset()
    settle(first, second)
    assert first.held() | second.held() == ALL
    assert first.held(), "it is back, under its new name"


def test_a_node_stops_trusting_its_claims_before_the_lease_ends(harness: Harness) -> None:
    member = harness.member()
    member.tick()
    harness.clocks[member] = LEASE * 0.66
    assert member.held() == ALL
    harness.clocks[member] = LEASE * 0.67
    assert member.held() == frozenset()
    member.tick()
    assert member.held() == ALL, "a renewal that comes in time restores them"


def test_leaving_frees_everything_at_once(harness: Harness) -> None:
    first, second = harness.member(), harness.member()
    settle(first, second)
    first.close()
    first.close()
    assert first.held() == frozenset()
    second.tick()
    assert second.held() == ALL


def test_a_service_that_cannot_be_reached_is_said(harness: Harness) -> None:
    member = harness.unreachable()
    with pytest.raises(CoordinationError):
        member.tick()
    assert member.held() == frozenset()


@pytest.mark.parametrize("seed", range(6))
def test_no_partition_is_held_twice_whatever_happens(harness: Harness, seed: int) -> None:
    chance = random.Random(seed)
    members = [harness.member() for _ in range(3)]
    for _ in range(60):
        member = chance.choice(members)
        match chance.choices(["tick", "release", "die", "leave"], [10, 4, 1, 1])[0]:
            case "tick":
                member.tick()
            case "release":
                surplus = sorted(member.surplus())
                member.release(surplus[: chance.randint(0, len(surplus))])
            case "die":
                harness.expire(member)
            case "leave":
                member.close()
                members[members.index(member)] = harness.member()
        holders = [m.held() for m in members]
        assert sum(map(len, holders)) == len(frozenset().union(*holders)), f"seed {seed}: held twice"
    settle(*members, rounds=6)
    assert frozenset().union(*(m.held() for m in members)) == ALL
    assert not any(m.surplus() for m in members)
