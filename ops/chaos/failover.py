"""Fail-over in figures: a node killed, stopped in order, joining, frozen past its session; and the cluster at rest.

    make failover [ARGS="--jobs 60"]

A cluster of 3 ZooKeeper, 1 RabbitMQ, 2 PostgreSQL, 3 nodes, 2 workers; jobs that run every second. Lateness is from
the nominal time to the arrival at the witness, so it includes queue, claim and call. Prints a line a figure.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psycopg

from chaos.cluster import Cluster, Member, Shape, count_in_logs
from chaos.history import Arrival, instant
from chaos.trial import arrivals

_SHAPE = Shape(nodes=3, workers=2, databases=2, rabbits=1, zookeepers=3)
_TICKS = os.sysconf("SC_CLK_TCK")


def owners(cluster: Cluster) -> dict[int, str]:
    """Who owns each partition, as the databases have it."""
    found: dict[int, str] = {}
    size = 1024 // len(cluster.databases)
    for number, database in enumerate(cluster.databases):
        with psycopg.connect(database.url) as conn:
            for partition, owner in conn.execute("SELECT partition_id, owner FROM partitions"):
                if partition // size == number:
                    found[partition] = owner or ""
    return found


def node_of(member: Member) -> str:
    """The identity that the member's node said last."""
    lines = [line for line in member.alive.text().splitlines() if "beat ready node=" in line]
    return lines[-1].partition("node=")[2].split()[0]


def jobs(cluster: Cluster, count: int) -> None:
    """Jobs that run every second."""
    for number in range(count):
        document = {
            "name": f"tick-{number}",
            "task": {"http": {"url": f"{cluster.witness.url}/ok"}},
            "schedule": {"every": "1s", "anchor": instant(int(time.time())).isoformat()},
            "catchUp": "all",
        }
        httpx.post(f"{cluster.api_url}/jobs", json=document, timeout=30).raise_for_status()


def lateness(cluster: Cluster, since: float, until: float, partitions: set[int] | None = None) -> list[float]:
    """Seconds of the first arrivals of nominal times in the window, of these partitions."""
    first: dict[tuple[str, int], Arrival] = {}
    for each in arrivals(cluster.witness.log_path, since):
        first.setdefault(each.run, each)
    chosen = [a for a in first.values() if since <= a.nominal / 1e6 < until]
    if partitions is not None:
        chosen = [a for a in chosen if int(a.job_id[-3:], 16) & 1023 in partitions]
    return sorted(a.at - a.nominal / 1e6 for a in chosen)


def tell(what: str, values: list[float]) -> None:
    p50, p99 = values[len(values) // 2], values[min(len(values) - 1, int(len(values) * 0.99))]
    print(
        f"{what:<44} p50 {p50:.3f} s  p99 {p99:.3f} s  max {values[-1]:.3f} s  of {len(values)} runs",
        flush=True,
    )


def repeated(cluster: Cluster, since: float) -> int:
    """Attempts that arrived more than once."""
    seen = [(a.run, a.attempt) for a in arrivals(cluster.witness.log_path, since)]
    return len(seen) - len(set(seen))


def missing(cluster: Cluster, since: float, until: float, count: int) -> int:
    """Nominal times of the window without an arrival: `count` jobs, each every second."""
    have = {(a.job_id, a.nominal) for a in arrivals(cluster.witness.log_path, since)}
    first, last = int(since) + 1, int(until)
    return count * (last - first) - sum(first <= nominal / 1e6 < last for _, nominal in have)


def killed(cluster: Cluster, count: int) -> None:
    """kill -9 of one of three nodes."""
    member = cluster.members["beat1"]
    mine = {partition for partition, owner in owners(cluster).items() if owner == node_of(member)}
    begun = time.time()
    member.alive.kill()
    time.sleep(15)
    until = time.time() - 3
    tell(f"kill -9: its {len(mine)} partitions", lateness(cluster, begun - 1, begun + 6, mine))
    others = set(range(1024)) - mine
    tell("kill -9: the others meanwhile", lateness(cluster, begun - 1, begun + 6, others))
    print(f"kill -9: missing {missing(cluster, begun, until, count)}, repeated {repeated(cluster, begun)}")
    cluster.start(member)


def stopped(cluster: Cluster, count: int) -> None:
    """SIGTERM of a node under load."""
    time.sleep(8)
    calm = time.time()
    time.sleep(8)
    tell("before a SIGTERM", lateness(cluster, calm, calm + 7))
    begun = time.time()
    member = cluster.members["beat2"]
    member.alive.terminate()
    time.sleep(8)
    tell("SIGTERM: all runs", lateness(cluster, begun, begun + 6))
    print(
        f"SIGTERM: missing {missing(cluster, begun, begun + 6, count)}, repeated {repeated(cluster, begun)}"
    )
    cluster.start(member)
    time.sleep(6)


def joined(cluster: Cluster) -> None:
    """A fourth node joins."""
    before = owners(cluster)
    member = cluster.add("beat", "fourth")
    begun = time.time()
    cluster.start(member)
    time.sleep(12)
    after = owners(cluster)
    moved = sum(before[p] != after[p] for p in before)
    gained = sum(owner == node_of(member) for owner in after.values())
    print(f"join: {moved} partitions moved, the new node has {gained}, the least possible is {1024 // 4}")
    tell("join: all runs", lateness(cluster, begun, begun + 10))
    member.alive.terminate()
    time.sleep(6)


def frozen(cluster: Cluster) -> None:
    """A node stopped just before a firing transaction, past its session, and continued."""
    member = cluster.members["beat0"]
    member.alive.terminate()
    begun = time.time()
    member.env["TOCSIN_CRASH_AT"] = "before-firing:6:STOP"
    cluster.start(member, wait=False)
    time.sleep(18)  # it stops itself within a second or so; its session of 3 s is long over
    member.alive.resume()
    time.sleep(8)
    fenced = count_in_logs(member, r"partitions_fenced")
    rejected = sum(
        int(line.rpartition("count=")[2])
        for line in member.alive.text().splitlines()
        if "partitions_fenced" in line
    )
    print(
        f"SIGSTOP past the session: {fenced} transactions met another epoch, {rejected} partitions refused to them"
    )
    print(f"SIGSTOP past the session: repeated {repeated(cluster, begun)}")


def at_rest(cluster: Cluster, seconds: float = 20.0) -> None:
    """CPU and transactions of the cluster without anything due."""
    for job in httpx.get(f"{cluster.api_url}/jobs", params={"limit": 1000}, timeout=30).json()["items"]:
        httpx.delete(f"{cluster.api_url}/jobs/{job['jobId']}", timeout=30)
    time.sleep(10)
    members = [m for m in cluster.members.values() if m.process is not None and m.process.running]
    cpu, transactions, begun = _cpu(members), _transactions(cluster), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begun
    for member, before in zip(members, cpu, strict=True):
        print(f"at rest: {member.name:<10} {100 * (_cpu([member])[0] - before) / took:.1f} % of a core")
    for number, (before, after) in enumerate(zip(transactions, _transactions(cluster), strict=True)):
        print(f"at rest: shard {number}    {(after - before) / took:.1f} transactions a second")


def _cpu(members: list[Member]) -> list[float]:
    found = []
    for member in members:
        words = Path(f"/proc/{member.alive.pid}/stat").read_text().rpartition(") ")[2].split()
        found.append((int(words[11]) + int(words[12])) / _TICKS)
    return found


def _transactions(cluster: Cluster) -> list[int]:
    found = []
    for database in cluster.databases:
        with psycopg.connect(database.url) as conn:
            row = conn.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert row is not None
        found.append(row[0])
    return found


def main() -> int:
    """Measure everything once."""
    parser = argparse.ArgumentParser(prog="make failover", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=60)
    count = parser.parse_args().jobs
    with (
        tempfile.TemporaryDirectory(prefix="tocsin-failover-") as place,
        Cluster(Path(place), _SHAPE) as cluster,
    ):
        jobs(cluster, count)
        time.sleep(10)
        killed(cluster, count)
        stopped(cluster, count)
        joined(cluster)
        frozen(cluster)
        at_rest(cluster)
    return 0


if __name__ == "__main__":
    sys.exit(main())
