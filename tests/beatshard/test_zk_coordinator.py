"""What is ZooKeeper's alone: sessions, suspended connections, lost answers, ensembles, access.

The figures are printed (`pytest -s`) as well as held to their limits.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol import states

from beatshard.coordinator import CoordinationError
from beatshard.zk_coordinator import ZkCoordinator
from support.processes import Process
from support.relay import Relay
from support.zookeeper import Ensemble, ZooKeeperServer
from tocsin.coordination import parse_coordinator
from tocsin.ids import PARTITIONS

ALL = frozenset(range(PARTITIONS))
Make = Callable[..., ZkCoordinator]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes members and closes them at the end."""
    with ExitStack() as stack:

        def member(coordinator: str, **options: Any) -> ZkCoordinator:
            address = parse_coordinator(coordinator)
            assert address is not None
            made = ZkCoordinator(address, **{"lease": 30.0, **options})
            stack.callback(made.close)
            return made

        yield member


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server that the test may stop, freeze and kill."""
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        yield server
        server.process.resume()


def drive(members: list[ZkCoordinator], until: Callable[[], bool], timeout: float = 20.0) -> float:
    """Tick them as nodes do, giving up what should move, until it is so; the seconds that it took."""
    begin = monotonic()
    while not until():
        assert monotonic() - begin < timeout, f"not within {timeout} s: {[len(m.held()) for m in members]}"
        for member in members:
            with suppress(CoordinationError):
                member.tick()
                member.release(member.surplus())
        members[0].changes.wait(min(0.02, members[0].tick_interval))
        members[0].changes.clear()
    return monotonic() - begin


def settled(members: list[ZkCoordinator]) -> Callable[[], bool]:
    """Whether they share everything, once each, and nothing is to move."""

    def check() -> bool:
        holdings = [member.held() for member in members]
        disjoint = sum(map(len, holdings)) == len(frozenset().union(*holdings))
        assert disjoint, "a partition is held twice"
        everybody = all(len(member.members()) == len(members) for member in members)
        return everybody and frozenset().union(*holdings) == ALL and not any(m.surplus() for m in members)

    return check


def ended(member: ZkCoordinator, timeout: float) -> bool:
    """Wait until `held()` is empty, without a tick."""
    end = monotonic() + timeout
    while member.held() and monotonic() < end:
        member.changes.wait(0.01)
    return not member.held()


def chroot(coordinator: str) -> str:
    address = parse_coordinator(coordinator)
    assert address is not None
    return address.chroot


def client(coordinator: str, **options: Any) -> KazooClient:
    address = parse_coordinator(coordinator)
    assert address is not None
    made = KazooClient(",".join(address.hosts), **options)
    made.start()
    return made


def test_the_first_tick_makes_the_chroot_and_takes_everything_quickly(zookeeper: str, make: Make) -> None:
    member = make(f"{zookeeper}/below", zone="a")
    begin = monotonic()
    member.tick()
    took = monotonic() - begin
    print(f"start: {took:.3f} s for {len(member.held())} partitions")
    assert member.held() == ALL
    assert took < 1.0
    admin = client(zookeeper)
    try:
        path = chroot(zookeeper) + "/below"
        assert admin.get_children(path + "/members") == [f"{member.node_id}@a"]
        assert len(admin.get_children(path + "/owners")) == PARTITIONS
        value, stat = admin.get(path + "/owners/0007")
        assert value.decode() == member.node_id
        assert stat.ephemeralOwner != 0
    finally:
        admin.stop()
        admin.close()
    assert member.zones == {member.node_id: "a"}


def test_few_packets_to_start_and_one_a_tick_at_rest(own_server: ZooKeeperServer, make: Make) -> None:
    members = [make(f"zookeeper://{own_server.address}") for _ in range(3)]
    before = own_server.received()
    members[0].tick()
    packets = own_server.received() - before
    print(f"start: {packets} packets for {PARTITIONS} partitions")
    assert packets < 40
    drive(members, settled(members))
    for _ in range(3):
        for member in members:
            member.tick()  # what the last changes called for
    before = own_server.received()
    for _ in range(20):
        for member in members:
            member.tick()
    packets = own_server.received() - before
    print(f"at rest: {packets} packets for {20 * len(members)} ticks")
    # The sessions are long: kazoo's own pings are a packet each at most, the question itself one more.
    assert 60 <= packets <= 60 + len(members) + 1


def test_a_member_that_leaves_is_replaced_at_once(zookeeper: str, make: Make) -> None:
    members = [make(zookeeper) for _ in range(3)]
    drive(members, settled(members))
    left, *rest = members
    begin = monotonic()
    left.close()
    drive(rest, settled(rest))
    took = monotonic() - begin
    print(f"graceful stop: everything has an owner after {took:.3f} s")
    assert took < 1.0


def test_a_tick_has_seen_every_event_of_before(zookeeper: str, make: Make) -> None:
    leaving, staying = make(zookeeper), make(zookeeper)
    drive([leaving, staying], settled([leaving, staying]))
    session = staying._session
    assert session is not None
    staying.tick()
    staying.tick()
    assert not session.changed()
    gate = threading.Event()
    session._handler.dispatch_callback(states.Callback("watch", gate.wait, ()))  # kazoo's thread is late
    leaving.close()
    late = threading.Timer(0.3, gate.set)
    late.start()
    staying.tick()
    late.join()
    assert staying.held() == ALL


def test_two_that_join_in_the_same_moment_share(zookeeper: str, make: Make) -> None:
    members = [make(zookeeper) for _ in range(4)]
    start = threading.Barrier(len(members))

    def join(member: ZkCoordinator) -> None:
        start.wait()
        for _ in range(5):
            member.tick()
            member.release(member.surplus())

    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(join, members))
    drive(members, settled(members))


def test_a_join_moves_only_the_new_members_share(zookeeper: str, make: Make) -> None:
    members = [make(zookeeper) for _ in range(3)]
    drive(members, settled(members))
    before = {p: m.node_id for m in members for p in m.held()}
    joining = make(zookeeper)
    took = drive([*members, joining], settled([*members, joining]))
    after = {p: m.node_id for m in [*members, joining] for p in m.held()}
    moved = {p for p in ALL if before[p] != after[p]}
    share = len(joining.held())
    print(f"3 → 4 members: {len(moved)} moved, the new share is {share}, an even one 256; {took:.3f} s")
    assert len(moved) <= 1.1 * share
    assert {after[p] for p in moved} == {joining.node_id}
    assert took < 2.0


def test_a_suspended_connection_empties_held_before_any_tick(own_server: ZooKeeperServer, make: Make) -> None:
    member = make(f"zookeeper://{own_server.address}")
    member.tick()
    name = member.node_id
    own_server.kill()
    assert ended(member, timeout=5.0), "the connection broke, and it still trusts what it holds"
    with pytest.raises(CoordinationError):
        member.tick()
    own_server.start()
    drive([member], lambda: member.held() == ALL)
    assert member.node_id == name, "the session outlived its server"


def test_a_lost_ensemble_empties_held(zookeeper_ensemble: Ensemble, make: Make) -> None:
    members = [make(f"zookeeper://{zookeeper_ensemble.address}/x", lease=10.0) for _ in range(2)]
    drive(members, settled(members))
    names = {member.node_id for member in members}
    first, second, third = zookeeper_ensemble.servers
    first.kill()
    second.kill()  # one of three is no majority: the last one serves nobody
    for member in members:
        assert ended(member, timeout=10.0)
    first.launch()
    second.launch()
    drive(members, settled(members), timeout=60.0)
    assert third.process.running
    print("kept their identities:", {member.node_id for member in members} == names)


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_the_leader_fails_and_the_members_go_on(zookeeper_ensemble: Ensemble, make: Make, fault: str) -> None:
    members = [make(f"zookeeper://{zookeeper_ensemble.address}", lease=4.0) for _ in range(3)]
    drive(members, settled(members))
    begin = monotonic()
    leader = zookeeper_ensemble.leader().process
    leader.kill() if fault == "killed" else leader.pause()
    drive(members, lambda: not all(m.held() for m in members), timeout=10.0)
    drive(members, settled(members), timeout=30.0)
    print(f"leader {fault}: everything has an owner again after {monotonic() - begin:.2f} s")


def test_a_silent_network_is_noticed_by_the_clock_and_then_cut(
    zookeeper_server: ZooKeeperServer, make: Make
) -> None:
    now = 0.0
    with Relay(zookeeper_server.port) as relay:
        member = make(f"zookeeper://127.0.0.1:{relay.port}/silent", lease=6.0, clock=lambda: now)
        member.tick()
        relay.swallow_answers = relay.swallow_requests = True
        now = 3.99
        assert member.held() == ALL
        now = 4.0
        assert member.held() == frozenset(), "two thirds of the session without an answer"
        now = 0.0
        begin = monotonic()
        with pytest.raises(CoordinationError):
            member.tick()
        assert monotonic() - begin < 3.0, "a tick is bounded"
        assert ended(member, timeout=0.5), "the connection was cut, the trust with it"
        name = member.node_id
        relay.swallow_answers = relay.swallow_requests = False
        relay.cut()
        drive([member], lambda: member.held() == ALL)
        assert member.node_id == name, "it came back in time"


def test_a_server_that_accepts_and_says_nothing_costs_no_session(
    zookeeper_server: ZooKeeperServer, make: Make
) -> None:
    with Relay(zookeeper_server.port) as relay:
        member = make(f"zookeeper://127.0.0.1:{relay.port}/mute", lease=12.0)
        member.tick()
        name = member.node_id
        relay.swallow_answers = True
        relay.cut()
        assert relay.swallowed.wait(5.0), "the greeting must have been swallowed"
        relay.swallow_answers = False
        took = drive([member], lambda: member.held() == ALL)
        print(f"reconnected after {took:.1f} s")
        assert took < 4.0
        assert member.node_id == name


def test_the_fence_follows_the_timeout_that_the_server_grants(zookeeper: str, make: Make) -> None:
    now = 0.0
    member = make(zookeeper, lease=600.0, clock=lambda: now)  # the server grants 60 s at most
    member.tick()
    now = 39.9
    assert member.held() == ALL
    now = 40.0
    assert member.held() == frozenset()
    assert member.tick_interval == 15.0


@pytest.mark.parametrize("what", ["take", "give back"])
def test_a_write_without_an_answer_is_looked_into(
    zookeeper: str, zookeeper_server: ZooKeeperServer, make: Make, what: str
) -> None:
    with Relay(zookeeper_server.port) as relay:
        direct = make(zookeeper)
        direct.tick()
        member = make(f"zookeeper://127.0.0.1:{relay.port}{chroot(zookeeper)}")
        member.tick()
        if what == "take":
            direct.close()
            member.changes.wait(5.0)
        else:
            drive([direct, member], settled([direct, member]))
            direct.close()
            drive([member], settled([member]))
            member.release(ALL)
        session = member._session
        assert session is not None
        send = session._write

        def send_and_lose(partitions: Any, add: Any) -> Any:
            if not partitions:
                return []
            relay.swallow_answers = True
            writes = send(partitions, add)
            assert relay.swallowed.wait(5.0), "the answer must have been on its way"
            relay.swallow_answers = False
            relay.cut()
            session._write = send
            return writes

        session._write = send_and_lose
        name = member.node_id
        drive([member], settled([member]))
        assert member.node_id == name
        admin = client(zookeeper)
        try:
            owners = chroot(zookeeper) + "/owners"
            assert len(admin.get_children(owners)) == PARTITIONS
            assert {admin.get(f"{owners}/{p:04d}")[0].decode() for p in range(0, PARTITIONS, 64)} == {name}
        finally:
            admin.stop()
            admin.close()


def test_a_member_whose_node_was_removed_joins_anew(zookeeper: str, make: Make) -> None:
    member = make(zookeeper)
    member.tick()
    name = member.node_id
    admin = client(zookeeper)
    admin.delete(f"{chroot(zookeeper)}/members/{name}@")
    admin.stop()
    admin.close()
    drive([member], lambda: member.node_id != name and member.held() == ALL)


def test_nothing_is_written_under_an_identity_that_is_gone(zookeeper: str, make: Make) -> None:
    member = make(zookeeper)
    member.tick()
    session = member._session
    assert session is not None
    member.release(ALL)
    assert all(write.done(monotonic() + 5) for write in session.give_back(ALL))
    admin = client(zookeeper)
    try:
        admin.delete(f"{chroot(zookeeper)}/members/{member.node_id}@")
        [write] = session.take(member.node_id, {7})
        with pytest.raises(NoNodeError):
            write.done(monotonic() + 5)
        assert admin.get_children(chroot(zookeeper) + "/owners") == []
    finally:
        admin.stop()
        admin.close()


def process(coordinator: str, lease: float) -> Process:
    command = [sys.executable, "-m", "support.zk_member", coordinator, str(lease)]
    tests = str(Path(__file__).parents[1])
    return Process(command, env={"PYTHONPATH": ":".join([tests, *sys.path])}, name="member")


LEASE = 2.0


def test_a_killed_process_is_replaced_when_its_session_ends(zookeeper: str, make: Make) -> None:
    with process(zookeeper, LEASE) as killed:
        killed.wait_for_line(r"held 1024 at")
        member = make(zookeeper, lease=LEASE)
        drive([member], lambda: bool(member.held()))
        assert member.held() != ALL, "the other one lives, and has its share"
        begin = monotonic()
        killed.kill()
        drive([member], settled([member]))
        took = monotonic() - begin
        print(f"kill -9: everything has an owner after {took:.2f} s, session {LEASE} s")
        assert took < LEASE + 1.5  # the server rounds sessions up to its ticks of 0.5 s


def test_a_process_stopped_past_its_session_holds_nothing_when_it_wakes(zookeeper: str, make: Make) -> None:
    with process(zookeeper, LEASE) as stopped:
        first = stopped.wait_for_line(r"held 1024 at (\S+) node (\S+)")
        stopped.pause()
        member = make(zookeeper, lease=LEASE)
        drive([member], settled([member]))
        taken = monotonic()
        stopped.resume()
        assert stopped.wait_for_line(r"woke (\d+) at")[1] == "0"
        again = stopped.wait_for_line(r"held 0 at (\S+) node (\S+)", skip=1)
        assert float(again[1]) > taken
        drive([member], lambda: len(re.findall(r"held [1-9]", stopped.text())) > 1)
        back = stopped.wait_for_line(r"held [1-9]\d* at (\S+) node (\S+)", skip=1)
        assert back[2] != first[2], "an identity that was lost never comes back"


def test_the_access_list_refuses_a_stranger(zookeeper: str, make: Make) -> None:
    member = make(zookeeper, auth=("beat", "se:cret"))
    member.tick()
    assert member.held() == ALL
    for options in ({}, {"auth_data": [("digest", "beat:wrong")]}):
        stranger = client(zookeeper, **options)
        try:
            with pytest.raises(NoAuthError):
                stranger.get_children(chroot(zookeeper) + "/members")
            with pytest.raises(NoAuthError):
                stranger.delete(chroot(zookeeper) + "/owners/0000")
            with pytest.raises(NoAuthError):
                stranger.create(chroot(zookeeper) + "/members/stranger@", ephemeral=True)
        finally:
            stranger.stop()
            stranger.close()
    intruder = make(zookeeper, auth=("beat", "wrong"))
    with pytest.raises(CoordinationError, match="TOCSIN_ZOOKEEPER_AUTH"):
        intruder.tick()
    member.tick()
    assert member.members() == {member.node_id}
