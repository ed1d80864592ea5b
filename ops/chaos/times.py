"""What counts as late, and which fault excuses what; pure.

A fault casts a shadow: leases (3 s nodes, 4 s runs), sessions and reconnections have to run out after it.

Weakness: which member a fault hit is not asked; a worker that was killed excuses a second attempt of another's run.
"""

from __future__ import annotations

from chaos.history import Fault, History

LATE = 3.0  # seconds
BURST = 10.0  # seconds for jobs that are all due in one second: the machine is slow, and they queue
PATIENCE = 20.0  # seconds
SHADOW = 15.0  # seconds after its end for which a fault still counts
# What can end a worker, stop it, or keep its heartbeat from the database. A node or a broker that dies costs no lease.
LOSES_LEASE = frozenset(
    {
        "kill-worker", "pause-worker", "cut-worker", "part-worker-postgres", "restart-postgres", "slow-postgres",
        "lost-commit", "outage", "blackout",
    }
)  # fmt: skip


def lateness(history: History) -> tuple[list[float], list[float]]:
    """Seconds from nominal time to the first arrival of scheduled runs: far from faults, and near them."""
    scheduled = {(run.job_id, run.nominal) for run in history.runs if run.origin == "schedule"}
    first: dict[tuple[str, int], float] = {}
    for arrival in history.arrivals:
        if arrival.run in scheduled:
            first[arrival.run] = min(arrival.at, first.get(arrival.run, arrival.at))
    calm: list[float] = []
    near: list[float] = []
    for (_, nominal), at in first.items():
        due = nominal / 1e6
        (near if near_fault(history.faults, due, at) else calm).append(at - due)
    return sorted(calm), sorted(near)


def near_fault(faults: list[Fault], since: float, until: float, kinds: frozenset[str] | None = None) -> bool:
    """Whether a fault (of these kinds), or its shadow, touches [since, until]."""
    return any(
        fault.start <= until and since <= fault.end + SHADOW
        for fault in faults
        if kinds is None or fault.kind in kinds
    )


def outside(faults: list[Fault], since: float, until: float, shadow: float) -> float:
    """Seconds of [since, until] in which there was no fault, and none had ended less than `shadow` seconds before."""
    left, at = 0.0, since
    for fault in sorted(faults, key=lambda f: f.start):
        left += max(0.0, min(fault.start, until) - at)
        at = max(at, min(fault.end + shadow, until))
    return left + max(0.0, until - at)
