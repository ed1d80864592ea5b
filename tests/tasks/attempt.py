"""An attempt as a runner gets it, without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from tocsin.clock import to_micros
from tocsin.ids import RunKey, new_job_id
from tocsin.store.leases import Claimed, Lease

NOMINAL = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def attempt(task: dict[str, Any], *, timeout: float = 10.0, number: int = 2) -> Claimed:
    """Attempt `number` of a run of the job `nightly` at NOMINAL."""
    key = RunKey(new_job_id("default", "nightly", NOMINAL), to_micros(NOMINAL))
    return Claimed(
        lease=Lease(key=key, attempt=number, token=uuid4()),
        job_name="nightly",
        task=task,
        retry_policy={},
        timeout=timeout,
        limited=False,
        cancel_requested=False,
        lateness=0.0,
    )
