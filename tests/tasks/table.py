"""Puts jobs and runs straight into a database, publishes their messages, and reads what became of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

from support.receiver import Receiver
from tocsin.clock import from_micros, to_micros
from tocsin.ids import RunKey, new_job_id, partition_of
from tocsin.model.job import JobDocument
from tocsin.settings import Settings
from tocsin_tasks.app import make_app


@dataclass
class Table:
    """One connection; `run()` makes a run of a job, by default queued at attempt 1."""

    conn: psycopg.Connection[Any]
    count: int = 0

    def now(self) -> Any:
        return self.conn.execute("SELECT clock_timestamp()").fetchone()[0]

    def job(
        self, url: str = "http://127.0.0.1:1/", *, http: dict[str, Any] | None = None, **document: Any
    ) -> Any:
        self.count += 1
        task = {"http": {"url": url, **(http or {})}}
        doc = JobDocument.model_validate({"name": f"job-{self.count}", "task": task, **document})
        job_id = new_job_id("default", doc.name, self.now())
        self.conn.execute(
            "INSERT INTO jobs (partition_id, job_id, namespace, name, owner, definition, task_kind, tier,"
            " timeout_us, overlap, max_running, queue_limit)"
            " VALUES (%s, %s, 'default', %s, %s, %s, 'http', %s, %s, %s, %s, %s)",
            (
                partition_of(job_id), job_id, doc.name, doc.owner, json.dumps(doc.document()), doc.tier,
                int(doc.timeout_sec * 1e6), doc.concurrency.overlap, doc.concurrency.max, doc.concurrency.queue_limit,
            ),
        )  # fmt: skip
        return job_id

    def run(self, job_id: Any, *, status: str = "queued", attempt: int = 1, back: float = 0.0) -> RunKey:
        """A run whose nominal time is `back` seconds before now."""
        at = self.now() - timedelta(seconds=back)
        key = RunKey(job_id, to_micros(at))
        self.conn.execute(
            "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier,"
            " task_kind, limited, fired_at) SELECT partition_id, job_id, %s, %s, 'schedule', %s, version, tier,"
            " task_kind, overlap <> 'allow', clock_timestamp() FROM jobs WHERE partition_id = %s AND job_id = %s",
            (from_micros(key.scheduled_us), status, attempt, key.partition, job_id),
        )
        return key

    def read(self, key: RunKey, columns: str = "status") -> Any:
        """The columns of a run; a single one as its value."""
        row = self._rows("runs", key, columns)[0]
        return row[0] if len(row) == 1 else row

    def attempts(self, key: RunKey, columns: str = "attempt, reason") -> list[Any]:
        return self._rows("attempts", key, columns)

    def outputs(self, key: RunKey, columns: str = "attempt, content, size, truncated") -> list[Any]:
        return self._rows("run_outputs", key, columns)

    def triggers(self, key: RunKey, columns: str = "kind, attempt, limited") -> list[Any]:
        return self._rows("triggers", key, columns)

    def _rows(self, table: str, key: RunKey, columns: str) -> list[Any]:
        return self.conn.execute(
            f"SELECT {columns} FROM {table} WHERE partition_id = %s AND job_id = %s AND scheduled_at = %s",
            (key.partition, key.job_id, key.scheduled_at),
        ).fetchall()

    def wait(self, receiver: Receiver, key: RunKey, *statuses: str, timeout: float = 30.0) -> str:
        """Wait until the run has one of these statuses, pacing the looks by a wait inside the database."""
        deadline = time.monotonic() + timeout
        while (status := self.read(key)) not in statuses:
            assert time.monotonic() < deadline, f"{key} is {status} after {timeout} s"
            self.conn.execute("SELECT pg_sleep(0.02)")
        return status

    def send_due(self, keys: Iterable[RunKey]) -> list[tuple[RunKey, int]]:
        """What a node does with due triggers of kind `run`, without their times; returns (run, attempt)."""
        sent = []
        for key in keys:
            for attempt, _ in self.triggers(key, "attempt, kind"):
                self.conn.execute(
                    "UPDATE runs SET status = 'queued', attempt = %s, fired_at = clock_timestamp()"
                    " WHERE partition_id = %s AND job_id = %s AND scheduled_at = %s",
                    (attempt, key.partition, key.job_id, key.scheduled_at),
                )
                self.conn.execute(
                    "DELETE FROM triggers WHERE partition_id = %s AND job_id = %s AND scheduled_at = %s",
                    (key.partition, key.job_id, key.scheduled_at),
                )
                sent.append((key, attempt))
        return sent


def publisher(broker_url: str, **settings: Any) -> Callable[..., None]:
    """Publishes as any Celery client does: `publish(key, attempt)`. Declares the queues, as a node does."""
    app = make_app(Settings(broker_url=broker_url, **settings))
    with app.connection_for_write() as connection:
        connection.connect()
        app.declare(connection)

    def publish(
        key: RunKey | str, attempt: Any = 1, *, queue: str = "tocsin.default", task: str = "tocsin.run.http"
    ) -> None:
        app.send_task(task, args=[str(key), attempt], task_id=str(key), queue=queue)

    return publish
