"""The schema: migrations give what the metadata says, days come and go, and every key leads with the partition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from tocsin.store import days, migrate, schema, schema_moves  # noqa: F401  the metadata
from tocsin.store.shards import connect, engine_for

# Tables that are not about one job: they have no partition to lead with.
GLOBAL = {"specs", "partitions", "nodes", "partition_claims", "workers", "alembic_version", "shard_identity"}


def test_the_migrations_give_the_tables_of_the_metadata(database_url: str) -> None:
    names = set(schema.metadata.tables)
    with engine_for(database_url).connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_name": lambda name, kind, _: kind != "table" or name in names}
        )
        differences = compare_metadata(context, schema.metadata)
    assert [d for d in differences if d[0] != "add_table_comment"] == []


def test_every_key_leads_with_the_partition(database_url: str) -> None:
    with connect(database_url) as conn:
        rows = conn.execute(
            "SELECT c.conrelid::regclass::text, a.attname FROM pg_constraint c JOIN pg_attribute a"
            " ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1] WHERE c.contype = 'p' AND c.connamespace = 'public'::regnamespace"
        ).fetchall()
    assert len(rows) > 10
    assert {table for table, column in rows if column != "partition_id"} <= GLOBAL


def test_upgrading_twice_changes_nothing(database_url: str) -> None:
    with connect(database_url) as conn:
        before = conn.execute("SELECT count(*), max(epoch) FROM partitions").fetchone()
        migrate.upgrade(database_url)
        assert conn.execute("SELECT count(*), max(epoch) FROM partitions").fetchone() == before == (1024, 0)


def test_a_shard_gets_the_partitions_of_its_range_only(new_database: Callable[..., str]) -> None:
    url = new_database(migrated=False)
    migrate.upgrade(url, first=512, last=1023)
    with connect(url) as conn:
        assert conn.execute("SELECT min(partition_id), max(partition_id) FROM partitions").fetchone() == (
            512,
            1023,
        )


def test_days_are_made_once_and_ahead(database_url: str) -> None:
    today = datetime.now(UTC).date()
    with engine_for(database_url).begin() as connection:
        assert {today + timedelta(days=n) for n in range(-1, 8)} <= days.existing(connection)
        far = today + timedelta(days=30)
        assert days.ensure(connection, [far, today]) == [far]
        assert days.ensure(connection, [far]) == []


def _insert_run(conn: psycopg.Connection[object], day: date, status: str) -> None:
    conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, job_version, tier, task_kind)"
        " VALUES (1, gen_random_uuid(), %s, %s, 'schedule', 1, 'default', 'http')",
        (datetime(day.year, day.month, day.day, 12, tzinfo=UTC), status),
    )


@pytest.mark.parametrize(
    ("status", "dropped"), [("succeeded", True), ("running", False), ("scheduled", False)]
)
def test_retention_drops_days_but_never_a_live_run(database_url: str, status: str, dropped: bool) -> None:
    today = datetime.now(UTC).date()
    yesterday = today - timedelta(days=1)
    with connect(database_url) as conn:
        _insert_run(conn, yesterday, status)
        with engine_for(database_url).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            assert days.drop_before(connection, today) == ([yesterday] if dropped else [])
            assert (yesterday in days.existing(connection)) is not dropped
            left = connection.execute(text("SELECT count(*) FROM runs")).scalar_one()
        assert left == (0 if dropped else 1)
