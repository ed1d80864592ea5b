"""Partitions moved under load: two nodes, two workers, jobs every second, and a witness that counts for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from platform_e2e.platform import Platform
from shards.moves import FIRST, LAST, databases_of, fresh_map
from shards.names import in_shard
from support.processes import Process
from support.receiver import Received, Receiver
from tocsin.store.connections import connect
from tocsin.store.places import learn

QUICK = ("--settle", "0.5", "--lease", "2")
RANGE = f"{FIRST}-{LAST}"
NAMES = ("0-511", "512-1023")
DIED = -9


@pytest.fixture
def platform(sharded: str, shard_urls: list[str], rabbitmq_vhost: str) -> Iterator[Platform]:
    # No worker dies here, so no lease is to run out, however busy the machine is.
    with Platform(sharded, rabbitmq_vhost, watched=shard_urls[0], TOCSIN_RUN_LEASE="20") as running:
        yield running


class Load:
    """Jobs every second, inside the range and outside of it, quick ones and some that run across the switch."""

    def __init__(self, platform: Platform, receiver: Receiver) -> None:
        self.platform, self.receiver = platform, receiver
        inside, low, high = in_shard(FIRST, LAST, 12), in_shard(0, FIRST - 1, 3), in_shard(512, 1023, 3)
        self.jobs: list[str] = []
        for n, name in enumerate([*inside, *low, *high]):
            path = "slow?seconds=0.7" if n % 3 == 0 else "ok"
            self.jobs.append(
                platform.create(name, f"{receiver.url}/{path}", schedule={"every": "1s"}, concurrency="allow")
            )

    def wait(self, more: int) -> None:
        """Until so many more requests have come for each job."""
        seen = Counter(job_of(r) for r in self.receiver.requests())
        for job in self.jobs:
            self.receiver.wait_for(lambda r, job=job: job_of(r) == job, count=seen[job] + more, timeout=60)

    def judge(self) -> float:
        """Nothing missed, nothing doubled; returns the greatest lateness in seconds."""
        live = {"scheduled", "waiting", "queued", "running"}
        for job in self.jobs:
            assert self.platform.client.post(f"/jobs/{job}/pause", json={}).status_code == 200
        runs = {}
        for job in self.jobs:
            self.platform.wait(
                lambda job=job: not [r for r in self.platform.runs(job) if r["status"] in live]
            )
            runs[job] = self.platform.runs(job)
        for found in runs.values():
            seconds = [datetime.fromisoformat(run["nominalTime"]) for run in found]
            assert all(b - a == timedelta(seconds=1) for a, b in pairwise(seconds)), "a second is missing"
            assert {(run["status"], run["attempt"]) for run in found} == {("succeeded", 1)}
        expected = {run["runId"] for found in runs.values() for run in found}
        seen = Counter(request.key for request in self.receiver.requests())
        assert set(seen) == expected
        assert [key for key, count in seen.items() if count > 1] == [], "executed twice"
        return max(run["latenessSec"] for found in runs.values() for run in found)


def job_of(request: Received) -> str:
    """The job that a run's ID names."""
    return f"job_{request.key[4:36]}"


def ended(process: Process, code: int = 0) -> str:
    assert process.wait(60) == code, process.text()
    return process.text()


def in_charge(sharded: str, urls: list[str]) -> str:
    """The one shard that accepts a write to every partition of the range; no other accepts one."""
    shards = fresh_map(sharded)
    with databases_of(urls) as connections:
        for _ in range(2):
            for conn, shard in zip(connections, shards.shards, strict=True):
                learn(conn, shards, shard)
        (name,) = {shards.shard_of(p).name for p in range(FIRST, LAST + 1)}
        for conn, shard in zip(connections, shards.shards, strict=True):
            count = conn.execute(
                "SELECT count(*) FROM generate_series(%s::int, %s::int) p WHERE NOT EXISTS (SELECT FROM shard_moves m"
                " WHERE m.partition_id = p AND (m.moved_to IS NOT NULL OR m.lease_until > clock_timestamp()))"
                " AND EXISTS (SELECT FROM partitions x WHERE x.partition_id = p)",
                (FIRST, LAST),
            ).fetchone()
            assert count == ((LAST - FIRST + 1,) if shard.name == name else (0,)), shard.name
    return str(name)


def test_a_range_moves_there_and_back_under_load(
    platform: Platform, receiver: Receiver, sharded: str, shard_urls: list[str]
) -> None:
    for _ in range(2):
        platform.node()
        platform.worker()
    load = Load(platform, receiver)
    load.wait(3)
    for target in (1, 0, 1):
        said = ended(platform.process("shard", "move", RANGE, "--to", NAMES[target], *QUICK))
        assert "pause" in said
        load.wait(4)
        assert in_charge(sharded, shard_urls) == NAMES[target]
    lateness = load.judge()
    assert lateness < 10
    listed = ended(platform.process("shard", "list"))
    assert f"0-511\t0-{FIRST - 1},{LAST + 1}-511\tok" in listed
    assert f"512-1023\t{RANGE},512-1023\tok" in listed


POINTS = ["move-past-copied", "move-fenced", "move-copied", "move-switched", "move-opened"]


def test_a_move_killed_anywhere_leaves_one_shard_in_charge(
    platform: Platform, receiver: Receiver, sharded: str, shard_urls: list[str]
) -> None:
    platform.node()
    platform.worker()
    load = Load(platform, receiver)
    load.wait(3)
    source = 0
    for point in POINTS:
        target = 1 - source
        dying = platform.process("shard", "move", RANGE, "--to", NAMES[target], *QUICK, TOCSIN_CRASH_AT=point)
        ended(dying, DIED)
        switched = point in ("move-switched", "move-opened")
        load.wait(4)
        assert in_charge(sharded, shard_urls) == NAMES[target if switched else source], point
        ended(platform.process("shard", "move", RANGE, "--to", NAMES[target], *QUICK))
        load.wait(4)
        assert in_charge(sharded, shard_urls) == NAMES[target], point
        with connect(shard_urls[source]) as conn:
            left = conn.execute(
                "SELECT count(*) FROM jobs WHERE partition_id BETWEEN %s AND %s", (FIRST, LAST)
            )
            assert left.fetchone() == (0,), "old rows go"
        source = target
    load.judge()
