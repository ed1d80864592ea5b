"""A cluster of processes on the loopback interface: servers, nodes, workers, API, and a relay between each two.

Every tocsin process reaches every server through a relay of its own, so that one pair can be parted. Logs go to
files in the cluster's directory. Everything is a child of this process and ends with it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psycopg

from chaos.servers import AUDIT, Postgres, Rabbits
from support.processes import Process
from support.receiver import Receiver
from support.relay import Relay
from support.zookeeper import Ensemble
from tocsin.store.migrate import upgrade

MUTANTS = Path(__file__).with_name("mutants")
# Short leases, so that a seed takes minutes. The sweep for unclaimed runs stays at its five minutes: no loss may
# hide behind it.
FAST = {
    "TOCSIN_RUN_LEASE": "4",
    "TOCSIN_HEARTBEAT_INTERVAL": "1",
    "TOCSIN_NODE_LEASE": "3",
    "TOCSIN_REAP_INTERVAL": "0.5",
    "TOCSIN_CONFIRM_TIMEOUT": "5",
    "TOCSIN_HTTP_ALLOW": "127.0.0.0/8",
}
_READY = {"beat": r"beat ready", "worker": r"worker ready", "api": r"api ready (http://\S+)"}
_MODULE = {"beat": "beatshard", "worker": "tocsin_tasks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much of everything; one ZooKeeper means the Postgres coordinator."""

    nodes: int = 3
    workers: int = 3
    databases: int = 2
    rabbits: int = 3
    zookeepers: int = 3


@dataclass(slots=True)
class Member:
    """One tocsin process and its relays by server: `pg0`, `mq1`, `zk2`."""

    role: str
    name: str
    env: dict[str, str]
    relays: dict[str, Relay]
    process: Process | None = None
    logs: list[str] = field(default_factory=list)

    def links(self, kind: str) -> list[Relay]:
        """The relays to all servers of a kind."""
        return [relay for name, relay in self.relays.items() if name.startswith(kind)]

    @property
    def alive(self) -> Process:
        assert self.process is not None
        return self.process


class Cluster:
    """See the module; a context manager."""

    def __init__(
        self, directory: Path, shape: Shape, *, mutant: str = "", crash: dict[str, str] | None = None
    ) -> None:
        self.directory, self.shape, self.mutant = directory, shape, mutant
        self._crash = crash or {}  # member → the crash point at which its first process dies
        self._stack = ExitStack()
        self.members: dict[str, Member] = {}
        self.databases: list[Postgres] = []
        self.rabbits = Rabbits(directory, shape.rabbits)
        self.ensemble: Ensemble | None = None
        self.witness = Receiver(directory / "witness.jsonl")
        self.api_url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            self._keep_log(member)
        self._stack.close()

    def _start(self) -> None:
        self._stack.enter_context(self.witness)
        self._stack.enter_context(self.rabbits)
        for number in range(self.shape.databases):
            database = Postgres(self.directory / f"postgres-{number}")
            self._stack.callback(lambda d=database: d.stop())
            upgrade(database.url)
            with psycopg.connect(database.url) as conn:
                conn.execute(AUDIT)
            self.databases.append(database)
        if self.shape.zookeepers > 1:
            self.ensemble = self._stack.enter_context(Ensemble(self.directory / "zookeeper"))
        self.start(self.add("api", "api"))
        for number in range(self.shape.nodes):
            self.add("beat", f"beat{number}", zone=f"zone{number}")
        for number in range(self.shape.workers):
            self.add("worker", f"worker{number}")
        for member in self.members.values():
            if member.process is None:
                self.start(member, wait=False)
        for member in self.members.values():
            self.wait_ready(member)

    def add(self, role: str, name: str, zone: str = "") -> Member:
        """A member with its relays, not started."""
        relays = {f"pg{n}": Relay(d.port) for n, d in enumerate(self.databases)}
        relays |= {f"mq{n}": Relay(r.port) for n, r in enumerate(self.rabbits.nodes)}
        if self.ensemble is not None and role == "beat":
            relays |= {f"zk{n}": Relay(s.port) for n, s in enumerate(self.ensemble.servers)}
        for relay in relays.values():
            self._stack.enter_context(relay)
        member = Member(role, name, self._environment(relays, zone), relays)
        if name in self._crash:
            member.env["TOCSIN_CRASH_AT"] = self._crash[name]
        self.members[name] = member
        return member

    def start(self, member: Member, *, wait: bool = True) -> None:
        """Start or start again; a member's relays stay."""
        self._keep_log(member)
        module = _MODULE.get(member.role)
        command = (
            [sys.executable, "-m", module]
            if module
            else [sys.executable, "-m", "tocsin_cli", "api", "--port", "0"]
        )
        member.process = Process(command, env={**FAST, **member.env}, name=member.name)
        member.env.pop("TOCSIN_CRASH_AT", None)  # once
        self._stack.callback(lambda process=member.process: process.stop(timeout=5))
        if wait:
            self.wait_ready(member)

    def wait_ready(self, member: Member) -> None:
        found = member.alive.wait_for_line(_READY[member.role], timeout=90)
        if member.role == "api":
            self.api_url = found[1]

    def of(self, role: str) -> list[Member]:
        """The members of a role."""
        return [member for member in self.members.values() if member.role == role]

    def _environment(self, relays: dict[str, Relay], zone: str) -> dict[str, str]:
        urls = [_at_port(d.url, relays[f"pg{n}"].port) for n, d in enumerate(self.databases)]
        size = 1024 // len(urls)
        ranges = [f"{n * size}-{(n + 1) * size - 1}={url}" for n, url in enumerate(urls)]
        env = {
            "TOCSIN_DATABASE_URL": urls[0] if len(urls) == 1 else ",".join(ranges),
            "TOCSIN_BROKER_URL": ";".join(
                _at_port(r.url, relays[f"mq{n}"].port) for n, r in enumerate(self.rabbits.nodes)
            ),
            "TOCSIN_ZONE": zone,
            "TOCSIN_HTTP_ALLOW": "127.0.0.1",
        }
        if "zk0" in relays:
            hosts = ",".join(f"127.0.0.1:{relays[f'zk{n}'].port}" for n in range(self.shape.zookeepers))
            env["TOCSIN_COORDINATOR"] = f"zookeeper://{hosts}/chaos"
        if self.mutant:
            env["CHAOS_MUTANT"] = self.mutant
            env["PYTHONPATH"] = os.pathsep.join([str(MUTANTS), os.environ.get("PYTHONPATH", "")]).rstrip(
                os.pathsep
            )
        return env

    def _keep_log(self, member: Member) -> None:
        if member.process is not None:
            with (self.directory / f"{member.name}.log").open("a") as file:
                file.write(member.process.text() + "\n--- end of this process\n")
            member.logs.append(member.process.text())


def _at_port(url: str, port: int) -> str:
    """The same URL at another port of this host."""
    assert urlsplit(url).port is not None, url
    return re.sub(r"@127\.0\.0\.1:\d+", f"@127.0.0.1:{port}", url)


def found_in_logs(member: Member, pattern: str) -> list[str]:
    """What matches in the output of all its processes; the group, when the pattern has one."""
    texts = [*member.logs, member.process.text() if member.process else ""]
    return [found for text in texts for found in re.findall(pattern, text)]


def count_in_logs(member: Member, pattern: str) -> int:
    """How many places in the output of all its processes match."""
    return len(found_in_logs(member, pattern))
