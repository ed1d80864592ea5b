"""Many jobs that are due at one instant, made as the API makes them, without its requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tocsin.model.job import JobDocument
from tocsin.store import jobs
from tocsin.store.shards import engine_for

_TOGETHER = 1000  # jobs of one transaction


def make_burst(database_url: str, url: str, count: int, at: datetime, **document: Any) -> None:
    """Jobs `burst-<n>` that call `url` once, at `at`."""
    for first in range(0, count, _TOGETHER):
        with engine_for(database_url).begin() as connection:
            for n in range(first, min(first + _TOGETHER, count)):
                body = {
                    "name": f"burst-{n}",
                    "task": {"http": {"url": url}},
                    "schedule": {"at": at.isoformat()},
                    **document,
                }
                jobs.create(connection, JobDocument.model_validate(body), "default")
