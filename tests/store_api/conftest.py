"""A fresh database as one shard, and the store's functions on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg
import pytest
from sqlalchemy import Connection

from tocsin.model.problems import parse_job
from tocsin.store import jobs, transactions
from tocsin.store.jobs import Job, JobRef
from tocsin.store.shards import Shard, connect, engine_for, parse_shards

T = TypeVar("T")
TASK = {"http": {"url": "http://127.0.0.1:1/"}}
RETENTION = timedelta(days=30)


@dataclass
class Store:
    """The shard, and a connection beside it to look and to hold locks."""

    shard: Shard
    db: psycopg.Connection[Any]

    def run(self, work: Callable[[Connection], T]) -> T:
        return transactions.run(self.shard, work)

    def create(self, name: str = "nightly", **more: Any) -> Job:
        document = parse_job({"name": name, "task": TASK, **more})
        return self.run(lambda conn: jobs.create(conn, document, "default"))

    def get(self, name: str = "nightly") -> Job:
        return self.run(lambda conn: jobs.get(conn, self.ref(name)))

    def ref(self, name: str = "nightly") -> JobRef:
        return jobs.parse_ref(f"name:{name}", "default")

    def now(self) -> datetime:
        return self.rows("SELECT clock_timestamp()")[0][0]

    def rows(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.db.execute(statement, args).fetchall()  # type: ignore[arg-type]

    def triggers(self, columns: str = "scheduled_at, kind, job_version") -> list[tuple[Any, ...]]:
        return self.rows(f"SELECT {columns} FROM triggers ORDER BY scheduled_at")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    (shard,) = parse_shards(database_url).shards
    with connect(database_url) as db:
        yield Store(shard, db)
    engine_for(database_url).dispose()
