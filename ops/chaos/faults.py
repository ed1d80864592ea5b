"""Faults: what is broken, how, and how it is mended. A plan is drawn from the seed.

A fault's function breaks something, holds it for the given seconds and mends it; whatever happens, `heal` brings the
cluster back to full strength afterwards.
"""

from __future__ import annotations

import signal
import time

from chaos import server_faults
from chaos.cluster import Cluster
from chaos.history import Fault
from chaos.scene import GUEST, Break, Scene


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
    """The network between one member and all servers of a kind swallows everything, or what goes one way."""

    def fault(scene: Scene) -> str:
        member = scene.one(role)
        requests, answers = scene.dice.choice([(True, True), (True, True), (True, False), (False, True)])
        for relay in member.links(kind):
            relay.swallow_requests, relay.swallow_answers = requests, answers
        scene.hold()
        for relay in member.links(kind):
            relay.heal()
        ways = "" if requests and answers else " requests" if requests else " answers"
        return f"{member.name}-{kind}{ways}"

    return fault


def _cut(role: str) -> Break:
    """All connections of one member end, again and again."""

    def fault(scene: Scene) -> str:
        member = scene.one(role)
        end = time.monotonic() + scene.seconds
        while time.monotonic() < end and not scene.stop.wait(scene.dice.uniform(0.1, 1)):
            for relay in member.relays.values():
                relay.cut()
        return member.name

    return fault


def _terminate(scene: Scene) -> str:
    member = scene.one("beat")
    member.alive.terminate()
    scene.cluster.start(member)
    return member.name


def _lost_commit(scene: Scene) -> str:
    """The answer to a commit is lost, now and then."""
    member = scene.dice.choice([*scene.members("beat"), *scene.members("worker"), *scene.members("api")])
    end = time.monotonic() + scene.seconds
    while time.monotonic() < end and not scene.stop.wait(scene.dice.uniform(0.2, 1)):
        for relay in member.links("pg"):
            relay.trap = b"COMMIT" if member.role != "worker" else b"UPDATE runs"
    for relay in member.links("pg"):
        relay.heal()
    return member.name


def _come_and_go(scene: Scene) -> str:
    """A further node joins and leaves every five seconds."""
    member = scene.cluster.members.get(GUEST) or scene.cluster.add("beat", GUEST, zone=GUEST)
    end = time.monotonic() + scene.seconds
    while time.monotonic() < end and not scene.stop.is_set():
        scene.cluster.start(member)
        scene.stop.wait(5)
        member.alive.send_signal(scene.dice.choice([signal.SIGTERM, signal.SIGKILL]))
        member.alive.wait(40)
    return GUEST


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
    "cut-beat": _cut("beat"),
    "cut-worker": _cut("worker"),
    "part-beat-postgres": _part("beat", "pg"),
    "part-beat-rabbitmq": _part("beat", "mq"),
    "part-worker-postgres": _part("worker", "pg"),
    "part-worker-rabbitmq": _part("worker", "mq"),
    "lost-commit": _lost_commit,
    "slow-postgres": server_faults.slow_postgres,
    "restart-postgres": server_faults.restart_postgres,
}
FULL: dict[str, Break] = CHEAP | {
    "kill-rabbitmq-leader": server_faults.kill_rabbit,
    "pause-rabbitmq-leader": server_faults.pause_rabbit,
    "memory-alarm": server_faults.memory_alarm,
    "come-and-go": _come_and_go,
    "outage": server_faults.outage,
    "blackout": server_faults.blackout,
    "wrong-clock": _wrong_clock,
    "kill-zookeeper-leader": server_faults.kill_zookeeper,
    "pause-zookeeper-leader": server_faults.pause_zookeeper,
    "part-beat-zookeeper": _part("beat", "zk"),
}


def run(scene: Scene, names: list[str], until: float, calm: float) -> list[Fault]:
    """One fault after the other, in the given order, with `calm` seconds between, until `until` (monotonic).

    A name is a kind, or a kind and the member to hit: `pause-beat:beat0`.
    """
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
        if member.name != GUEST:
            member.alive.resume()
            if not member.alive.running:
                cluster.start(member)
