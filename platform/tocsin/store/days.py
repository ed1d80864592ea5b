"""Day partitions of runs, attempts and outputs: made ahead, dropped when past retention.

A day is a UTC day of the nominal time. A partition is made before the first row of its day is written: ahead
of time by maintenance, at once for a nominal time outside that range. Dropping detaches concurrently first,
so that no reader waits; it needs a connection in autocommit mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, text

from tocsin.store.schema import DAILY

_FILLFACTOR = {"runs": 70}
# Two processes that attach partitions at once would wait for each other's locks in turn.
LOCK_SQL = "SELECT pg_advisory_xact_lock(hashtext('tocsin days'))"


def day_of(instant: datetime) -> date:
    """The UTC day, which names the partition."""
    return instant.astimezone(UTC).date()


def _name(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


def create_statements(day: date) -> list[str]:
    """The statements that make the partitions of one day; harmless when they exist."""
    bounds = f"FROM ('{day} 00:00+00') TO ('{day + timedelta(days=1)} 00:00+00')"
    return [
        f"CREATE TABLE IF NOT EXISTS {_name(table.name, day)} PARTITION OF {table.name} FOR VALUES {bounds}"
        + (f" WITH (fillfactor = {_FILLFACTOR[table.name]})" if table.name in _FILLFACTOR else "")
        for table in DAILY
    ]


def ensure(connection: Connection, wanted: Iterable[date]) -> list[date]:
    """Make the partitions of these days where they are missing; returns the days that were new.

    Runs in the caller's transaction; a racing process waits on the advisory lock and finds them made.
    """
    missing = sorted(set(wanted) - existing(connection))
    if not missing:
        return []
    connection.execute(text(LOCK_SQL))
    missing = sorted(set(missing) - existing(connection))
    for day in missing:
        for statement in create_statements(day):
            connection.execute(text(statement))
    return missing


def existing(connection: Connection) -> set[date]:
    """The days that have a partition of `runs` attached."""
    rows = connection.execute(
        text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'runs'::regclass")
    )
    return {
        datetime.strptime(name.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC).date() for (name,) in rows
    }


def make_ahead(connection: Connection, *, back: int, ahead: int) -> list[date]:
    """Make the partitions from `back` days before the database's today to `ahead` days after it."""
    today: date = connection.execute(text("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")).scalar_one()
    return ensure(connection, [today + timedelta(days=n) for n in range(-back, ahead + 1)])


def drop_before(connection: Connection, oldest: date) -> list[date]:
    """Drop every day partition before `oldest`; returns the days. The connection must be in autocommit mode.

    A day with runs that are not final is kept: a run is never lost to retention while it is alive.
    """
    dropped = []
    for day in sorted(d for d in existing(connection) if d < oldest):
        live = connection.execute(
            text(
                f"SELECT EXISTS (SELECT FROM {_name('runs', day)} "
                "WHERE status IN ('scheduled', 'waiting', 'queued', 'running'))"
            )
        ).scalar_one()
        if live:
            continue
        connection.execute(text("SET lock_timeout = '5s'"))
        for table in reversed(DAILY):
            name = _name(table.name, day)
            connection.execute(text(f"ALTER TABLE {table.name} DETACH PARTITION {name} CONCURRENTLY"))
            connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text("RESET lock_timeout"))
        dropped.append(day)
    return dropped
