"""What counts as late, and which fault excuses what; pure.

A fault excuses only what it can cause, and only for as long as it can: REACH gives each kind the seconds after its
end in which leases (3 s nodes, 4 s runs), sessions and reconnections still have to run out. A fault of one database
excuses nothing of a job whose partition lies in another. A further attempt is excused by what can cost a lease of
the very worker that held it.

Weakness: which partitions a node owned when it was hit is not asked, nor which queue a message lay in: a dead node
excuses a late run of any job, for its reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from chaos.history import PARTITIONS, Arrival, Ended, Fault, History

LATE = 3.0  # seconds
BURST = 10.0  # seconds for jobs that are all due in one second: the machine is slow, and they queue
PATIENCE = 20.0  # seconds
# Seconds after its end in which a fault can still make a run late.
REACH = {
    "stop-beat": 2.0, "kill-beat": 6.0, "pause-beat": 6.0, "cut-beat": 5.0, "come-and-go": 6.0,
    "kill-worker": 6.0, "pause-worker": 6.0, "cut-worker": 6.0,
    "part-beat-postgres": 8.0, "part-beat-rabbitmq": 8.0, "part-beat-zookeeper": 8.0,
    "part-worker-postgres": 8.0, "part-worker-rabbitmq": 8.0,
    "lost-commit": 6.0, "slow-postgres": 6.0, "restart-postgres": 10.0, "wrong-clock": 6.0,
    "kill-rabbitmq-leader": 10.0, "pause-rabbitmq-leader": 10.0, "memory-alarm": 8.0,
    "kill-zookeeper-leader": 8.0, "pause-zookeeper-leader": 8.0,
    "outage": 12.0, "blackout": 15.0, "none": 0.0,
}  # fmt: skip
LONGEST = max(REACH.values())
# What can end a worker, stop it, or keep its heartbeat from the database. A node or a broker that dies costs no lease.
LOSES_LEASE = frozenset(
    {
        "kill-worker", "pause-worker", "cut-worker", "part-worker-postgres", "restart-postgres", "slow-postgres",
        "lost-commit", "outage", "blackout",
    }
)  # fmt: skip
LEASE = 4.0  # seconds of a run's lease: what was lost in a fault is known to be lost that much later
_LOST = {"lease_expired", "timeout"}  # ends of an attempt that a fault, not the target, has caused


def lateness(history: History) -> tuple[list[float], list[float]]:
    """Seconds from nominal time to the first arrival of scheduled runs: far from faults, and near them."""
    calm: list[float] = []
    near: list[float] = []
    for (job_id, nominal), at in _first(history).items():
        due = nominal / 1e6
        faults = concerning(history, job_id)
        (near if near_fault(faults, due, at) else calm).append(at - due)
    return sorted(calm), sorted(near)


def recovery(history: History) -> float | None:
    """Seconds from the end of the last fault to the last arrival that was more than LATE late; 0 when none was.

    None when no run was due later than the reach of that fault: then nothing shows that it has recovered.
    """
    if not history.faults:
        return None
    last = max(history.faults, key=lambda fault: fault.end)
    first = _first(history)
    if not any(nominal / 1e6 > last.end + REACH[last.kind] for _, nominal in first):
        return None
    late = [at for (_, nominal), at in first.items() if at - nominal / 1e6 > LATE and at > last.end]
    return max(late, default=last.end) - last.end


def concerning(history: History, job_id: str) -> list[Fault]:
    """The faults that can touch a job: not those of a database that its partition is not in."""
    shard = (int(job_id[-3:] or "0", 16) % PARTITIONS) * history.shards // PARTITIONS
    return [
        fault
        for fault in history.faults
        if not re.fullmatch(r"pg\d+", fault.target) or fault.target == f"pg{shard}"
    ]


def near_fault(faults: Iterable[Fault], since: float, until: float) -> bool:
    """Whether a fault, or its reach, touches [since, until]."""
    return any(fault.start <= until and since <= fault.end + REACH[fault.kind] for fault in faults)


def outside(faults: Iterable[Fault], since: float, until: float, *, reach: bool) -> float:
    """Seconds of [since, until] in which there was no fault, nor (with `reach`) the reach of one."""
    left, at = 0.0, since
    for fault in sorted(faults, key=lambda f: f.start):
        left += max(0.0, min(fault.start, until) - at)
        at = max(at, min(fault.end + (REACH[fault.kind] if reach else 0.0), until))
    return left + max(0.0, until - at)


def unjustified(history: History, before: Arrival, after: Arrival, failures: int) -> str | None:
    """Why the attempts from one arrival to the next had no right to be given up; None when they had."""
    for number in range(before.attempt, after.attempt):
        ended = history.attempts.get((before.job_id, before.nominal, number))
        if ended is None:
            return f"attempt {number} has no recorded end"
        if number <= failures and ended.reason not in _LOST:
            continue
        if ended.reason not in _LOST:
            return f"attempt {number} ended with {ended.reason}, which the target did not answer"
        if not _lost(history, ended, before, after):
            return f"attempt {number} lost its lease ({ended.worker or 'no worker'}) without a fault that costs it"
    return None


def _lost(history: History, ended: Ended, before: Arrival, after: Arrival) -> bool:
    return any(
        fault.start <= after.at and before.at <= fault.end + LEASE and _hits(fault, ended.worker)
        for fault in concerning(history, before.job_id)
        if fault.kind in LOSES_LEASE
    )


def _hits(fault: Fault, worker: str) -> bool:
    """Whether it was this worker, or something that all workers need."""
    found = re.match(r"(?:worker|beat|api|guest)\d*", fault.target)
    return not found or not worker or found[0] == worker


def _first(history: History) -> dict[tuple[str, int], float]:
    waits = {
        job.job_id for job in history.jobs if job.kind == "queue"
    }  # for the run before it, not for tocsin
    scheduled = {
        (run.job_id, run.nominal)
        for run in history.runs
        if run.origin == "schedule" and run.job_id not in waits
    }
    first: dict[tuple[str, int], float] = {}
    for arrival in history.arrivals:
        if arrival.run in scheduled:
            first[arrival.run] = min(arrival.at, first.get(arrival.run, arrival.at))
    return first
