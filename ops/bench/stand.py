"""What the benchmarks stand on: a real PostgreSQL with fsync, a real RabbitMQ, and jobs by the hundred thousand.

Jobs are written with COPY, as the API would have written them, spread over all partitions, with one of a few
specs. Processes are children of the benchmark and end with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.rabbitmq import RabbitNode  # noqa: E402
from tocsin.embedded import EmbeddedPostgres  # noqa: E402
from tocsin.ids import new_job_id, partition_of  # noqa: E402
from tocsin.model.job import JobDocument  # noqa: E402
from tocsin.store.migrate import upgrade  # noqa: E402
from tocsin.store.shards import connect  # noqa: E402
from tocsin.store.specs import spec_id_of, spec_of  # noqa: E402

# A WAL that is not cut by a checkpoint in the middle.
POSTGRES = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "fsync": "on"}
HTTP = {"http": {"url": "http://127.0.0.1:9/", "method": "GET"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Addresses of the servers."""

    database: str
    broker: str
    postgres_pid: int = 0
    rabbitmq_pid: int = 0

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a tocsin process."""
        mine = {"TOCSIN_DATABASE_URL": self.database, "TOCSIN_BROKER_URL": self.broker}
        mine |= {"TOCSIN_HTTP_ALLOW": "127.0.0.1"}
        return {**os.environ, **mine, **more}


@contextmanager
def servers(databases: int = 1, *, autovacuum: bool = False) -> Iterator[Stand]:
    """Start the servers; with two databases the partitions are halved between them.

    `autovacuum`: as it is by default; without it a short measurement is not disturbed.
    """
    settings = {**POSTGRES, "autovacuum": "on" if autovacuum else "off"}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-bench-")))
        started = [stack.enter_context(EmbeddedPostgres(settings=settings)) for _ in range(databases)]
        for each in started:
            upgrade(each.url)
        broker = stack.enter_context(RabbitNode(place / "rabbitmq"))
        urls = [each.url for each in started]
        database = urls[0] if databases == 1 else f"0-511={urls[0]},512-1023={urls[1]}"
        yield Stand(
            database=database, broker=broker.url, postgres_pid=started[0].pid, rabbitmq_pid=broker.process.pid
        )


def database_now(conn: psycopg.Connection[Any]) -> datetime:
    """The database's clock."""
    row = conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def fill(
    conn: psycopg.Connection[Any],
    count: int,
    at: datetime,
    *,
    task: dict[str, Any] = HTTP,
    every: str = "1h",
    specs: int = 4,
    partitions: range = range(1024),
    name: str = "job",
    analyze: bool = True,
) -> None:
    """`count` recurring jobs that are due at `at`; made in chunks, so memory does not grow with their number."""
    documents = [_document(task, every, at, n) for n in range(specs)]
    for document, spec_id in documents:
        spec = spec_of(document.schedule, document.catch_up)  # type: ignore[arg-type]
        conn.execute("INSERT INTO specs VALUES (%s, %s) ON CONFLICT DO NOTHING", (spec_id, json.dumps(spec)))
    definitions = [(json.dumps(document.document()), spec_id) for document, spec_id in documents]
    made, number = 0, 0
    while made < count:
        rows: list[tuple[int, UUID, str, str, int]] = []
        while made < count and len(rows) < 20_000:
            number += 1
            job = f"{name}-{number}"
            job_id = new_job_id("default", job, at)
            if (partition := partition_of(job_id)) in partitions:
                definition, spec_id = definitions[number % specs]
                rows.append((partition, job_id, job, definition, spec_id))
                made += 1
        _copy(conn, rows, at)
    if analyze:
        conn.execute("ANALYZE jobs, triggers")


def _document(task: dict[str, Any], every: str, at: datetime, number: int) -> tuple[JobDocument, int]:
    # Other catch-up windows make other specs of one schedule.
    document = JobDocument.model_validate(
        {
            "name": "bench",
            "task": task,
            "schedule": {"every": every, "anchor": at.isoformat()},
            "catchUp": {"mode": "all", "windowSec": 3600 + number},
        }
    )
    assert document.schedule is not None
    return document, spec_id_of(spec_of(document.schedule, document.catch_up))


def _copy(conn: psycopg.Connection[Any], rows: list[tuple[int, UUID, str, str, int]], at: datetime) -> None:
    with conn.transaction(), conn.cursor() as cursor:
        with cursor.copy(
            "COPY jobs (partition_id, job_id, namespace, name, owner, definition, spec_id, task_kind, tier, timeout_us,"
            " overlap, max_running, queue_limit) FROM STDIN"
        ) as copy:
            for partition, job_id, job, definition, spec_id in rows:
                head = (partition, job_id, "default", job, "bench", definition, spec_id, "http", "default")
                copy.write_row((*head, 60_000_000, "allow", 1, 100))
        with cursor.copy(
            "COPY triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, spec_id) FROM STDIN"
        ) as copy:
            for partition, job_id, _, _, spec_id in rows:
                copy.write_row((partition, at, job_id, at, "schedule", 1, spec_id))


def child(stack: ExitStack, command: list[str], env: dict[str, str], **options: Any) -> subprocess.Popen[str]:
    """A child process that ends with the stack."""
    process = subprocess.Popen([sys.executable, *command], env=env, text=True, **options)

    def end() -> None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process


def later(conn: psycopg.Connection[Any], seconds: float) -> datetime:
    """A whole second, at least so many from now."""
    return (database_now(conn) + timedelta(seconds=seconds + 1)).replace(microsecond=0)


__all__ = ["HTTP", "ROOT", "Stand", "child", "connect", "database_now", "fill", "later", "servers"]
