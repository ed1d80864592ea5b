"""One seed: a cluster, its workload, its faults, quiet, and the history for the judge."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from chaos import faults
from chaos.cluster import Cluster, Shape, count_in_logs, found_in_logs
from chaos.history import Arrival, Ended, Fault, Gap, History, Run, micros
from chaos.judge import Finding, judge
from chaos.scene import Scene
from chaos.times import REACH, lateness, recovery
from chaos.workload import Workload
from tocsin.ids import parse_run_id

QUIET = 90.0  # seconds after the last fault within which everything must have ended


@dataclass(slots=True, kw_only=True)
class Options:
    """How one seed is run; `names` are the faults in their order, drawn from the seed when empty."""

    seed: int
    seconds: float = 80.0
    names: list[str] = field(default_factory=list)
    size: float = 1.0
    hold: float = 6.0
    calm: float = 4.0
    quiet: float = QUIET
    outage: float = 12.0  # seconds that a total outage lasts
    settle: float = (
        5.0  # seconds that jobs still run after the reach of the last fault, so that the recovery is judged
    )


def run(cluster: Cluster, options: Options) -> tuple[History, list[Finding], dict[str, Any]]:
    """Run one seed on a running cluster; its history, the violations and some figures."""
    for database in cluster.databases:
        with psycopg.connect(database.url) as conn:
            conn.execute(
                "TRUNCATE jobs, triggers, runs, attempts, run_outputs, gaps, idempotency_keys, chaos_usurped"
            )
    began = time.time()
    history, figures = _live(cluster, options, began)
    found = judge(history)
    calm, near = lateness(history)
    figures |= {"calm_p50": _at(calm, 0.5), "calm_p99": _at(calm, 0.99), "calm_max": _at(calm, 1.0)}
    figures |= {"near_p50": _at(near, 0.5), "near_p99": _at(near, 0.99), "near_max": _at(near, 1.0)}
    figures["recovered_s"] = recovery(history)
    return history, found, figures


def _settled(done: list[Fault]) -> float:
    """When no fault can excuse anything any more."""
    return max((fault.end + REACH[fault.kind] for fault in done), default=0.0)


def _live(cluster: Cluster, options: Options, began: float) -> tuple[History, dict[str, Any]]:
    dice = random.Random(options.seed * 7919)
    fenced = _fenced(cluster)
    stop = threading.Event()
    workload = Workload(
        options.seed,
        options.seconds,
        target=cluster.witness.url,
        api=lambda: cluster.api_url,
        size=options.size,
    )
    caller = threading.Thread(target=workload.run, args=(stop,), daemon=True)
    caller.start()
    names = options.names or _draw(dice, cluster.shape)
    scene = Scene(cluster, dice, options.hold, options.outage, stop)
    done: list[Fault] = []
    try:
        # Faults that were asked for by name all come, however long a busy machine takes over them.
        until = float("inf") if options.names else time.monotonic() + options.seconds
        done = faults.run(scene, names, until, options.calm)
        faults.heal(cluster)
        caller.join(options.seconds + options.outage + 120)
        if caller.is_alive():
            raise RuntimeError("calls are still without an answer")
    finally:
        stop.set()
    if workload.failed:
        raise RuntimeError(f"calls were refused: {workload.failed[:5]}")
    time.sleep(max(0.0, _settled(done) - time.time()) + options.settle)
    workload.finish()
    paused = time.time()
    overdue = _wait_quiet(cluster, options.quiet)
    quiet = time.time()
    history = _read(cluster, workload, done, overdue, began)
    figures = {
        "seed": options.seed,
        "faults": [fault.kind for fault in done],
        "jobs": len(workload.jobs),
        "calls": workload.calls,
        "repeated_calls": workload.repeats,
        "runs": len(history.runs),
        "arrivals": len(history.arrivals),
        "gaps": len(history.gaps),
        "fenced": _fenced(cluster) - fenced,
        "live_s": round(paused - began, 1),
        "quiet_s": round(quiet - paused, 1),
    }
    return history, figures


def _fenced(cluster: Cluster) -> int:
    return sum(count_in_logs(member, "partitions_fenced") for member in cluster.of("beat"))


def _draw(dice: random.Random, shape: Shape) -> list[str]:
    names = sorted(faults.FULL)
    if shape.zookeepers <= 1:
        names = [name for name in names if "zookeeper" not in name]
    dice.shuffle(names)
    return names


def _wait_quiet(cluster: Cluster, seconds: float) -> int:
    """Until nothing is due and nothing is going on; how many triggers are overdue at the end."""
    deadline = time.monotonic() + seconds
    overdue = 0
    while time.monotonic() < deadline:
        counts = [_pending(database.url) for database in cluster.databases]
        overdue = sum(triggers for triggers, _ in counts)
        if not any(runs or triggers for triggers, runs in counts):
            return 0
        time.sleep(0.5)
    return overdue


def _pending(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT (SELECT count(*) FROM triggers WHERE fire_at < clock_timestamp() + interval '60 s'),"
            " (SELECT count(*) FROM runs WHERE status IN ('scheduled', 'waiting', 'queued', 'running'))"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def _read(cluster: Cluster, workload: Workload, done: list[Fault], overdue: int, began: float) -> History:
    runs: list[Run] = []
    gaps: list[Gap] = []
    attempts: dict[tuple[str, int, int], Ended] = {}
    workers = _workers(cluster)
    usurped: list[str] = []
    for database in cluster.databases:
        with psycopg.connect(database.url) as conn:
            for job, at, status, reason, origin, attempt, fired in conn.execute(
                "SELECT job_id, scheduled_at, status, reason, origin, attempt, extract(epoch FROM fired_at)::float8 FROM runs"
            ):
                runs.append(
                    Run(job_id=job.hex, nominal=micros(at), status=status, reason=reason, origin=origin, attempt=attempt,
                        fired_at=fired)
                )  # fmt: skip
            found = conn.execute(
                "SELECT partition_id, node, owner, at FROM chaos_usurped ORDER BY at"
            ).fetchall()
            usurped += [
                f"partition {number} by {node}, owned by {owner}, at {at}"
                for number, node, owner, at in found
            ]
            for job, first, last, at in conn.execute(
                "SELECT job_id, first_at, last_at, extract(epoch FROM created_at)::float8 FROM gaps"
            ):
                gaps.append(Gap(job_id=job.hex, first=micros(first), last=micros(last), recorded=at))
            for job, at, attempt, reason, owner in conn.execute(
                "SELECT job_id, scheduled_at, attempt, reason, lease_owner FROM attempts"
            ):
                attempts[job.hex, micros(at), attempt] = Ended(reason=reason, worker=workers.get(owner, ""))
    return History(
        jobs=[job for job in workload.jobs if job.changes], arrivals=arrivals(cluster.witness.log_path, began), runs=runs,
        gaps=gaps, faults=done, attempts=attempts, shards=len(cluster.databases), overdue=overdue, usurped=usurped, ended=time.time(),
    )  # fmt: skip


def _workers(cluster: Cluster) -> dict[str, str]:
    """Worker IDs, as leases carry them, to the members that they were."""
    return {
        found: member.name
        for member in cluster.of("worker")
        for found in found_in_logs(member, r"worker ready id=(\S+)")
    }


def arrivals(log: Path, since: float) -> list[Arrival]:
    """What the witness logged after an instant."""
    found = []
    for line in log.read_bytes().split(b"\n")[:-1]:
        said = json.loads(line)
        if said["received_at"] / 1e9 < since:
            continue
        key = parse_run_id(said["headers"]["tocsin-run-id"])
        assert key is not None
        attempt = int(said["headers"]["tocsin-attempt"])
        at = said["received_at"] / 1e9
        found.append(Arrival(at=at, job_id=key.job_id.hex, nominal=key.scheduled_us, attempt=attempt))
    return found


def _at(values: list[float], share: float) -> float | None:
    return round(values[min(len(values) - 1, int(len(values) * share))], 3) if values else None
