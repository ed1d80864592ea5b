"""What a worker asks about runs that it does not hold: whether they are over, and who has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin.clock import to_micros
from tocsin.ids import RunKey
from tocsin.model.status import RunStatus
from tocsin.store.leases import Connection

# Index: runs_pkey of the nominal days. Cost: one probe a run.
READ = """
SELECT r.job_id, r.scheduled_at, r.status, r.lease_owner
FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[])
     AS k (partition_id, job_id, scheduled_at)
JOIN runs r ON r.partition_id = k.partition_id AND r.job_id = k.job_id AND r.scheduled_at = k.scheduled_at
WHERE r.scheduled_at BETWEEN %(low)s AND %(high)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state of a run, and the worker whose attempt is or was the last."""

    status: RunStatus
    owner: str | None


async def states(conn: Connection, keys: Sequence[RunKey]) -> dict[RunKey, RunState]:
    """The states of these runs; one that is not there is left out."""
    if not keys:
        return {}
    nominals = [key.scheduled_at for key in keys]
    cursor = await conn.execute(
        READ,
        {
            "partitions": [key.partition for key in keys],
            "jobs": [key.job_id for key in keys],
            "nominals": nominals,
            "low": min(nominals),
            "high": max(nominals),
        },
    )
    return {
        RunKey(job, to_micros(at)): RunState(status=RunStatus(status), owner=owner)
        for job, at, status, owner in await cursor.fetchall()
    }
