"""One of two Postgres servers goes away under load and comes back; what the other one's jobs noticed.

`stop` ends the server, so connections are refused; `freeze` stops its processes with SIGSTOP, so that connections
stay open and nothing answers. The server that goes holds partitions 512-1023, unless the coordinator is ZooKeeper:
the first one is the Postgres coordinator's, without which no node knows what it holds.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from platform_e2e.platform import Platform
from shards.names import in_shard
from support.receiver import Receiver
from tocsin.embedded import EmbeddedPostgres
from tocsin.embedded.supervised import free_port
from tocsin.store.connections import connect
from tocsin.store.migrate import upgrade

RANGES = ((0, 511), (512, 1023))


class Server:
    """A Postgres server of its own that keeps its address over a restart."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._port = directory, free_port()
        self._server = self._started()
        self.url = self._server.url

    def _started(self) -> EmbeddedPostgres:
        settings: dict[str, str | int | bool] = {"fsync": False, "full_page_writes": False}
        return EmbeddedPostgres(self._directory, settings=settings, port=self._port).start()

    def stop(self) -> None:
        self._server.stop()

    @contextmanager
    def away(self, how: str) -> Iterator[None]:
        """In this block it does not answer."""
        if how == "stop":
            self._server.stop()
            yield
            self._server = self._started()
        else:
            pids = _family(self._server.pid)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                yield
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)


def _family(pid: int) -> list[int]:
    """The process, its children and theirs: those that can no longer be forked first."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [pid]
    for parent in found:
        found.extend(children.get(parent, ()))
    return found


@dataclass(slots=True)
class Seen:
    """What the shard that stayed noticed. Seconds."""

    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)  # of the API for its jobs, during the outage
    away: float = 0.0
    back_after: float = 0.0  # from the server's return to the first run of its jobs
    worst: float = 0.0  # lateness of the other shard's runs

    def line(self, name: str, values: list[float]) -> str:
        return f"{name}: {len(values)}, p50 {quantile(values, 0.5):.3f} s, p99 {quantile(values, 0.99):.3f} s"


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Outage:
    """Two servers, a platform on them, jobs every second on both; `gone` is the number of the one that goes."""

    def __init__(
        self, platform: Platform, receiver: Receiver, servers: list[Server], jobs: int, gone: int = 1
    ) -> None:
        self.platform, self.receiver, self.servers = platform, receiver, servers
        self._gone, self._stays = gone, 1 - gone
        self.jobs = [
            [
                platform.create(name, f"{receiver.url}/ok", schedule={"every": "1s"})
                for name in in_shard(*span, jobs)
            ]
            for span in RANGES
        ]

    def wait(self, shard: int, more: int) -> None:
        """Until so many more requests have come for each job of a shard."""
        seen = Counter(_job(request) for request in self.receiver.requests())
        for job in self.jobs[shard]:
            self.receiver.wait_for(lambda r, job=job: _job(r) == job, count=seen[job] + more, timeout=120)

    def run(self, how: str, seconds: int) -> Seen:
        """Some time with both, `seconds` with one, and until the other has caught up; judge."""
        seen = Seen()
        self.wait(self._stays, max(5, seconds // 2))
        gone_at = self.platform.now()
        with self.servers[self._gone].away(how):
            while self.platform.now() - gone_at < timedelta(seconds=seconds):
                self._ask(seen)
                self.wait(self._stays, 1)
            back_at = self.platform.now()
        seen.away = (back_at - gone_at).total_seconds()
        started = time.monotonic()
        self.wait(self._gone, 1)
        seen.back_after = time.monotonic() - started
        self.wait(self._gone, int(seen.away) + 3)
        self._pause()
        late = self._judge()
        for nominal, seconds_late in late[self._stays]:
            if nominal < gone_at - timedelta(seconds=1):
                seen.before.append(seconds_late)
            elif gone_at <= nominal < back_at:
                seen.during.append(seconds_late)
        seen.worst = max(each for _, each in late[self._gone])
        return seen

    def _ask(self, seen: Seen) -> None:
        """The API is asked for jobs of both; the one that is there is answered."""
        client = self.platform.client
        for job in self.jobs[self._gone][:4]:
            with suppress(httpx.TimeoutException):  # a silent server holds the first requests up
                assert client.get(f"/jobs/{job}", timeout=0.3).status_code == 503
        begun = time.monotonic()
        assert client.get(f"/jobs/{self.jobs[self._stays][0]}", timeout=10).status_code == 200
        seen.answers.append(time.monotonic() - begun)

    def _pause(self) -> None:
        for job in (job for jobs in self.jobs for job in jobs):
            assert self.platform.client.post(f"/jobs/{job}/pause", json={}).status_code == 200

    def _judge(self) -> list[list[tuple[datetime, float]]]:
        """Every second of every job has its run; those of the shard that stayed ran once. (nominal, lateness)."""
        requests = Counter(request.key for request in self.receiver.requests())
        result: list[list[tuple[datetime, float]]] = []
        for number, jobs in enumerate(self.jobs):
            late: list[tuple[datetime, float]] = []
            for job in jobs:
                self.platform.wait(
                    lambda job=job: all(r["status"] == "succeeded" for r in self._runs(job)), timeout=120
                )
                runs = self._runs(job)
                nominal = [datetime.fromisoformat(run["nominalTime"]) for run in runs]
                assert all(b - a == timedelta(seconds=1) for a, b in pairwise(nominal)), "a second is missing"
                times = [requests[run["runId"]] for run in runs]
                assert min(times) >= 1, "a run that nobody saw"
                assert number == self._gone or max(times) == 1, (
                    "a run of the shard that stayed was executed twice"
                )
                late += [(at, run["latenessSec"]) for at, run in zip(nominal, runs, strict=True)]
            result.append(late)
        return result

    def _runs(self, job: str) -> list[dict[str, Any]]:
        return self.platform.runs(job)


def _job(request: Any) -> str:
    return f"job_{request.key[4:36]}"


@contextmanager
def two_servers(directory: Path) -> Iterator[list[Server]]:
    """Both migrated, each with the partitions of its range."""
    servers: list[Server] = []
    try:
        for number, (first, last) in enumerate(RANGES):
            servers.append(Server(directory / f"server-{number}"))
            upgrade(servers[-1].url, first=first, last=last)
            with connect(servers[-1].url) as conn:
                assert conn.execute("SELECT count(*) FROM partitions").fetchone() == (512,)
        yield servers
    finally:
        for server in servers:
            server.stop()


def address(servers: list[Server]) -> str:
    """TOCSIN_DATABASE_URL of both."""
    return ",".join(f"{first}-{last}={s.url}" for (first, last), s in zip(RANGES, servers, strict=True))
