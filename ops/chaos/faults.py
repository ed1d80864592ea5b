"""Faults: what is broken, how, and how it is mended. A plan is drawn from the seed.

A fault's function breaks something, holds it for the given seconds and mends it; whatever happens, `heal` brings the
cluster back to full strength afterwards.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.cluster import Cluster, Member
from chaos.history import Fault

QUEUE = "tocsin.default"
Break = Callable[["Scene"], str]


@dataclass(slots=True)
class Scene:
    """What a fault may use."""

    cluster: Cluster
    dice: random.Random
    seconds: float
    stop: threading.Event
    target: str = ""  # the member to hit; any of the role when empty

    def one(self, role: str) -> Member:
        if self.target:
            return self.cluster.members[self.target]
        return self.dice.choice(self.cluster.of(role))

    def hold(self) -> None:
        self.stop.wait(self.seconds)


def _kill(role: str) -> Break:
    def fault(scene: Scene) -> str:
        member = scene.one(role)
        member.alive.kill()
        scene.stop.wait(min(scene.seconds, 6))
        scene.cluster.start(member)
        return member.name

    return fault


def _pause(role: str) -> Break:
    """Past lease and session, then on again."""

    def fault(scene: Scene) -> str:
        member = scene.one(role)
        member.alive.pause()
        scene.hold()
        member.alive.resume()
        return member.name

    return fault


def _part(role: str, kind: str) -> Break:
    """The network between one member and all servers of a kind swallows everything."""

    def fault(scene: Scene) -> str:
        member = scene.one(role)
        for relay in member.links(kind):
            relay.swallow_requests = relay.swallow_answers = True
        scene.hold()
        for relay in member.links(kind):
            relay.heal()
        return f"{member.name}-{kind}"

    return fault


def _terminate(scene: Scene) -> str:
    member = scene.one("beat")
    member.alive.terminate()
    scene.cluster.start(member)
    return member.name


def _lost_commit(scene: Scene) -> str:
    """The answer to a commit is lost, now and then."""
    member = scene.dice.choice(
        [*scene.cluster.of("beat"), *scene.cluster.of("worker"), *scene.cluster.of("api")]
    )
    end = time.monotonic() + scene.seconds
    while time.monotonic() < end and not scene.stop.wait(scene.dice.uniform(0.2, 1)):
        for relay in member.links("pg"):
            relay.trap = b"COMMIT" if member.role != "worker" else b"UPDATE runs"
    for relay in member.links("pg"):
        relay.heal()
    return member.name


def _slow_postgres(scene: Scene) -> str:
    links = [relay for member in scene.cluster.members.values() for relay in member.links("pg0")]
    for relay in links:
        relay.delay = 0.15
    scene.hold()
    for relay in links:
        relay.heal()
    return "pg0"


def _restart_postgres(scene: Scene) -> str:
    number = scene.dice.randrange(len(scene.cluster.databases))
    database = scene.cluster.databases[number]
    database.kill()
    scene.stop.wait(min(scene.seconds, 4))
    database.restart()
    return f"pg{number}"


def _kill_rabbit(scene: Scene) -> str:
    node = scene.cluster.rabbits.leader(QUEUE)
    node.kill()
    scene.stop.wait(min(scene.seconds, 6))
    node.start()
    return node.name


def _memory_alarm(scene: Scene) -> str:
    node = scene.cluster.rabbits.leader(QUEUE)
    node.ctl("set_vm_memory_high_watermark", "0.0001")
    scene.hold()
    node.ctl("set_vm_memory_high_watermark", "0.4")
    return node.name


def _kill_leader(scene: Scene) -> str:
    assert scene.cluster.ensemble is not None
    server = scene.cluster.ensemble.leader()
    server.kill()
    scene.hold()
    server.start()
    return f"zk{server.number}"


def _come_and_go(scene: Scene) -> str:
    """A further node joins and leaves every five seconds."""
    member = scene.cluster.members.get("guest") or scene.cluster.add("beat", "guest", zone="guest")
    end = time.monotonic() + scene.seconds
    while time.monotonic() < end and not scene.stop.is_set():
        scene.cluster.start(member)
        scene.stop.wait(5)
        member.alive.send_signal(scene.dice.choice([signal.SIGTERM, signal.SIGKILL]))
        member.alive.wait(40)
    return "guest"


def _outage(scene: Scene) -> str:
    """Every node and worker dies at once, and all come back."""
    members = [*scene.cluster.of("beat"), *scene.cluster.of("worker")]
    for member in members:
        member.alive.kill()
    scene.stop.wait(scene.seconds * 2)
    for member in members:
        scene.cluster.start(member, wait=False)
    for member in members:
        scene.cluster.wait_ready(member)
    return "all"


def _wrong_clock(scene: Scene) -> str:
    """A node whose clock is 30 seconds off joins in another one's place."""
    member = scene.one("beat")
    member.alive.terminate()
    sound = dict(member.env)
    shift = scene.dice.choice(["+30s", "-30s"])
    member.env |= {
        "LD_PRELOAD": _FAKETIME,
        "FAKETIME": shift,
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    scene.cluster.start(member)
    scene.hold()
    member.alive.terminate()
    member.env = sound
    scene.cluster.start(member)
    return f"{member.name} {shift}"


_FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def _nothing(scene: Scene) -> str:
    return ""


CHEAP: dict[str, Break] = {
    "kill-beat": _kill("beat"),
    "pause-beat": _pause("beat"),
    "kill-worker": _kill("worker"),
    "pause-worker": _pause("worker"),
    "stop-beat": _terminate,
    "part-beat-postgres": _part("beat", "pg"),
    "part-beat-rabbitmq": _part("beat", "mq"),
    "part-worker-postgres": _part("worker", "pg"),
    "part-worker-rabbitmq": _part("worker", "mq"),
    "lost-commit": _lost_commit,
    "slow-postgres": _slow_postgres,
    "restart-postgres": _restart_postgres,
}
FULL: dict[str, Break] = CHEAP | {
    "kill-rabbitmq-leader": _kill_rabbit,
    "memory-alarm": _memory_alarm,
    "come-and-go": _come_and_go,
    "outage": _outage,
    "wrong-clock": _wrong_clock,
    "kill-zookeeper-leader": _kill_leader,
    "part-beat-zookeeper": _part("beat", "zk"),
}


def run(scene: Scene, names: list[str], until: float, calm: float) -> list[Fault]:
    """One fault after the other, in the given order (`pause-beat`, or `pause-beat:beat0` for one member), with `calm` seconds between, until `until` (monotonic)."""
    done: list[Fault] = []
    for name in names:
        if scene.stop.wait(calm * scene.dice.uniform(0.5, 1.5)) or time.monotonic() > until:
            break
        start = time.time()
        kind, _, scene.target = name.partition(":")
        target = (_nothing if kind == "none" else FULL[kind])(scene)
        done.append(Fault(kind=kind, target=target, start=start, end=time.time()))
        print(f"    {kind} {target} {done[-1].end - start:.1f} s", flush=True)
    return done


def heal(cluster: Cluster) -> None:
    """Everything runs and is connected."""
    for member in cluster.members.values():
        for relay in member.relays.values():
            relay.heal()
        if member.name != "guest":
            member.alive.resume()
            if not member.alive.running:
                cluster.start(member)
