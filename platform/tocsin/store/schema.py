"""The tables of one shard. Every key leads with `partition_id`; no hot statement crosses partitions.

`runs`, `attempts` and `run_outputs` are range-partitioned by day on the nominal time, so that retention is a
dropped partition (`days.py`). There is no DEFAULT partition: it would forbid to detach others concurrently.

The weakness: a run's status is part of the predicates of partial indexes, so the updates of claim and finish
are not HOT; the fillfactor and the day partitions keep the dead rows near and short-lived.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

metadata = MetaData()
Instant = DateTime(timezone=True)
_NOW = text("clock_timestamp()")
LIVE_SQL = "status IN ('scheduled', 'waiting', 'queued', 'running')"


def _key() -> tuple[Column[Any], Column[Any]]:
    return Column("partition_id", SmallInteger, nullable=False), Column(
        "job_id", UUID(as_uuid=True), nullable=False
    )


specs = Table(
    "specs",
    metadata,
    # A hash of the text, so that every shard knows a spec by the same number.
    Column("spec_id", BigInteger, primary_key=True, autoincrement=False),
    Column("spec", JSONB, nullable=False),
    comment="The few distinct (schedule, catch-up policy) pairs that jobs share",
)

jobs = Table(
    "jobs",
    metadata,
    *_key(),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("labels", JSONB, nullable=False, server_default=text("'{}'")),
    Column("definition", JSONB, nullable=False),  # the canonical document
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("spec_id", BigInteger),  # NULL: by hand only
    Column("jitter_us", BigInteger, nullable=False, server_default=text("0")),
    Column("task_kind", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("pool", Text, nullable=False, server_default=text("'default'")),
    Column("timeout_us", BigInteger, nullable=False),
    Column("overlap", Text, nullable=False),
    Column("max_running", Integer, nullable=False),
    Column("queue_limit", Integer, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("pause_reason", Text),
    Column("created_at", Instant, nullable=False, server_default=_NOW),
    Column("updated_at", Instant, nullable=False, server_default=_NOW),
    Column("deleted_at", Instant),  # a tombstone: history and late runs still need the row
    PrimaryKeyConstraint("partition_id", "job_id"),
    Index(
        "jobs_name",
        "partition_id",
        "namespace",
        "name",
        unique=True,
        postgresql_where=text("deleted_at IS NULL"),
    ),
    Index("jobs_newest", "job_id", postgresql_where=text("deleted_at IS NULL")),
)

triggers = Table(
    "triggers",
    metadata,
    Column("partition_id", SmallInteger, nullable=False),
    Column("fire_at", Instant, nullable=False),
    Column("job_id", UUID(as_uuid=True), nullable=False),
    Column("scheduled_at", Instant, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job_version", Integer, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("spec_id", BigInteger),
    Column("jitter_us", BigInteger, nullable=False, server_default=text("0")),
    Column("limited", Boolean, nullable=False, server_default=text("false")),
    # The nominal time is in the key because two retries of one job may be due at one instant.
    PrimaryKeyConstraint("partition_id", "fire_at", "job_id", "scheduled_at"),
    Index("triggers_job", "partition_id", "job_id"),
)


def _run_key() -> tuple[Column[Any], ...]:
    return (*_key(), Column("scheduled_at", Instant, nullable=False))


_BY_DAY = "RANGE (scheduled_at)"

runs = Table(
    "runs",
    metadata,
    *_run_key(),
    Column("status", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column(
        "attempt", Integer, nullable=False, server_default=text("0")
    ),  # the attempt in progress, or the last
    Column("job_version", Integer, nullable=False),
    Column("tier", Text, nullable=False),
    Column("task_kind", Text, nullable=False),
    Column("limited", Boolean, nullable=False, server_default=text("false")),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", Instant, nullable=False, server_default=_NOW),
    Column("fired_at", Instant),  # when it last became queued
    Column("started_at", Instant),  # start of the first attempt
    Column("attempt_started_at", Instant),
    Column("deadline_at", Instant),  # end of the attempt's timeout
    Column("finished_at", Instant),
    Column("lease_owner", Text),
    Column("lease_token", UUID(as_uuid=True)),
    Column("lease_expires_at", Instant),
    Column("http_status", SmallInteger),
    Column("reason", Text),
    Column("error", Text),
    Column("rerun_of", Instant),  # nominal time of the run that this one repeats
    PrimaryKeyConstraint("partition_id", "job_id", "scheduled_at"),
    Index("runs_queued", "partition_id", "fired_at", postgresql_where=text("status = 'queued'")),
    Index("runs_leased", "partition_id", "lease_expires_at", postgresql_where=text("status = 'running'")),
    Index("runs_limited", "partition_id", "job_id", postgresql_where=text(f"limited AND {LIVE_SQL}")),
    postgresql_partition_by=_BY_DAY,
)

attempts = Table(
    "attempts",
    metadata,
    *_run_key(),
    Column("attempt", Integer, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant, nullable=False, server_default=_NOW),
    Column("lease_owner", Text),
    Column("http_status", SmallInteger),
    Column("reason", Text, nullable=False),
    Column("error", Text),
    PrimaryKeyConstraint("partition_id", "job_id", "scheduled_at", "attempt"),
    comment="Finished attempts that were not the last word; the last one is in the run",
    postgresql_partition_by=_BY_DAY,
)

run_outputs = Table(
    "run_outputs",
    metadata,
    *_run_key(),
    Column("attempt", Integer, nullable=False),
    Column("content_type", Text),
    Column("size", BigInteger, nullable=False),  # bytes seen; more than kept when `truncated`
    Column("truncated", Boolean, nullable=False),
    Column("content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("partition_id", "job_id", "scheduled_at", "attempt"),
    postgresql_partition_by=_BY_DAY,
)

gaps = Table(
    "gaps",
    metadata,
    *_key(),
    Column("first_at", Instant, nullable=False),
    Column("last_at", Instant, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("at_least", Boolean, nullable=False),
    Column("job_version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("partition_id", "job_id", "first_at"),
    comment="Nominal times that the catch-up policy dropped",
)

partitions = Table(
    "partitions",
    metadata,
    Column("partition_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("owner", Text),
    # Every run that became queued up to this instant has been confirmed by the broker.
    Column("watermark", Instant, nullable=False, server_default=text("'-infinity'")),
    Column("taken_at", Instant),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("zone", Text, nullable=False, server_default=text("''")),
    Column("expires_at", Instant, nullable=False),
    Column("started_at", Instant, nullable=False, server_default=_NOW),
    comment="Members of the Postgres coordinator (first shard only)",
)

claims = Table(
    "partition_claims",
    metadata,
    Column("partition_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("node_id", Text, nullable=False),
    comment="Who holds a partition in the Postgres coordinator (first shard only)",
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    Column("tiers", ARRAY(Text), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("running", Integer, nullable=False, server_default=text("0")),
    Column("started_at", Instant, nullable=False, server_default=_NOW),
    Column("expires_at", Instant, nullable=False),
    comment="Workers that were seen lately (first shard only)",
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("partition_id", SmallInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("headers", JSONB, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("partition_id", "key"),
    Index("idempotency_keys_age", "created_at"),
)
DAILY = (runs, attempts, run_outputs)
