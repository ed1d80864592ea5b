"""Puts jobs and their triggers into a database as the API does, with the nominal time the test wants."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from tocsin import schedules
from tocsin.ids import new_job_id, partition_of
from tocsin.model.job import JobDocument
from tocsin.store import partitions as parts
from tocsin.store.plans import PlanCache

TASK = {"http": {"url": "http://127.0.0.1:1/"}}


@dataclass
class Bench:
    """A connection, a plan cache and the partitions owned by the test's node."""

    conn: psycopg.Connection[Any]
    plans: PlanCache = field(default_factory=PlanCache)
    owned: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def now(self) -> datetime:
        return self.conn.execute("SELECT clock_timestamp()").fetchone()[0]

    def take(self, *partitions: int, node: str = "test") -> dict[int, int]:
        self.owned.update({t.partition: t.epoch for t in parts.take(self.conn, partitions, node)})
        return self.owned

    def job(
        self, nominal: datetime | None = None, *, fire_at: datetime | None = None, **document: Any
    ) -> UUID:
        """A job whose next nominal time is `nominal`; without one it has no trigger."""
        self.count += 1
        document = {"name": f"job-{self.count}", "task": TASK, **document}
        doc = JobDocument.model_validate(document)
        job_id = new_job_id("default", doc.name, self.now())
        partition = partition_of(job_id)
        spec_id = self.spec(doc)
        with self.conn.transaction():
            self.conn.execute(
                "INSERT INTO jobs (partition_id, job_id, namespace, name, owner, definition, spec_id, jitter_us,"
                " task_kind, tier, timeout_us, overlap, max_running, queue_limit, paused)"
                " VALUES (%s, %s, 'default', %s, %s, %s, %s, %s, 'http', %s, %s, %s, %s, %s, %s)",
                (
                    partition, job_id, doc.name, doc.owner, json.dumps(doc.document()), spec_id, self.jitter(doc),
                    doc.tier, int(doc.timeout_sec * 1e6), doc.concurrency.overlap, doc.concurrency.max,
                    doc.concurrency.queue_limit, doc.paused,
                ),
            )  # fmt: skip
            if nominal is not None:
                self.trigger(job_id, nominal, fire_at or nominal, "schedule", spec_id, doc)
        if partition not in self.owned:
            self.take(partition)
        return job_id

    def spec(self, doc: JobDocument) -> int | None:
        if doc.schedule is None:
            return None
        raw = json.dumps(
            {
                "schedule": schedules.canonical(doc.schedule) | {"jitterSec": 0},
                "catchUp": doc.catch_up.model_dump(mode="json"),
            },
            sort_keys=True,
        )
        spec_id = hash(raw) % (1 << 62)
        self.conn.execute("INSERT INTO specs VALUES (%s, %s) ON CONFLICT DO NOTHING", (spec_id, raw))
        return spec_id

    def jitter(self, doc: JobDocument) -> int:
        return 0 if doc.schedule is None else int(doc.schedule.jitter.total_seconds() * 1e6)

    def trigger(
        self,
        job_id: UUID,
        nominal: datetime,
        fire_at: datetime,
        kind: str,
        spec: int | None,
        doc: JobDocument,
    ) -> None:
        self.conn.execute(
            "INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, spec_id,"
            " jitter_us, limited) VALUES (%s, %s, %s, %s, %s, 1, %s, %s, %s)",
            (
                partition_of(job_id), fire_at, job_id, nominal, kind, spec, self.jitter(doc),
                doc.concurrency.overlap != "allow",
            ),
        )  # fmt: skip

    def runs(self, job_id: UUID, columns: str = "scheduled_at, status") -> list[tuple[Any, ...]]:
        return self.conn.execute(
            f"SELECT {columns} FROM runs WHERE partition_id = %s AND job_id = %s ORDER BY scheduled_at",
            (partition_of(job_id), job_id),
        ).fetchall()

    def triggers(self, job_id: UUID, columns: str = "scheduled_at, kind") -> list[tuple[Any, ...]]:
        return self.conn.execute(
            f"SELECT {columns} FROM triggers WHERE partition_id = %s AND job_id = %s ORDER BY fire_at",
            (partition_of(job_id), job_id),
        ).fetchall()

    def gaps(self, job_id: UUID) -> list[tuple[Any, ...]]:
        return self.conn.execute(
            "SELECT first_at, last_at, count FROM gaps WHERE partition_id = %s AND job_id = %s ORDER BY first_at",
            (partition_of(job_id), job_id),
        ).fetchall()
