"""The parts of a move that handle rows and triggers: copy, delete, raise the fence and take it down.

Rows go through this process as COPY gives them, in text, a few kilobytes at a time. Locks on tables are asked for
with a short timeout and again: a waiting one holds up every writer of the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Table

from tocsin.errors import TocsinError
from tocsin.store import days
from tocsin.store import moves_sql as sql

Connection = psycopg.Connection[Any]
T = TypeVar("T")
CUT = timedelta(minutes=10)  # a run that ended so long before is not changed by a transaction still under way
BATCH = 5000  # rows deleted in one transaction
_LOCK_TRIES = 30
_FENCE = re.compile(r"fence_(\d+)_(\d+)(?:_delete)?")


class CopyError(TocsinError):
    """The target's rows are not the source's; the copy is not used."""

    code = "shard_move"


@dataclass(frozen=True, slots=True)
class Rows:
    """From where to where, which partitions; `counts` is added to."""

    source: Connection
    target: Connection
    first: int
    last: int
    counts: dict[str, int]

    @property
    def range(self) -> dict[str, int]:
        return {"first": self.first, "last": self.last}


def copy_past(rows: Rows) -> str:
    """Copy what can change no more, while everything runs; returns the cut, an SQL literal of an instant."""
    found = rows.source.execute("SELECT clock_timestamp() - %s", (CUT,)).fetchone()
    assert found is not None
    cut = f"'{found[0].isoformat()}'::timestamptz"
    _make_days(rows)
    for table in sql.HISTORY:
        with rows.target.transaction():
            rows.target.execute(sql.BYPASS)
            _copy(rows, table, cut=cut, past=True)
    return cut


def copy_rest(rows: Rows, cut: str, grace: timedelta) -> None:
    """Copy all the rest in one transaction of the target. The source's range must be fenced."""
    _make_days(rows)
    with rows.target.transaction():
        rows.target.execute(sql.BYPASS)
        _copy_specs(rows)
        for table in sql.WHOLE:
            _copy(rows, table)
        for table in sql.HISTORY:
            _copy(rows, table, cut=cut)
        rows.target.execute(sql.SETTLE_PARTITIONS, rows.range)
        rows.target.execute(sql.SETTLE_QUEUED, rows.range)
        rows.target.execute(sql.SETTLE_RUNNING, {**rows.range, "grace": grace})


def _copy(rows: Rows, table: Table, *, cut: str | None = None, past: bool = False) -> None:
    text = sql.copy_out(table, rows.first, rows.last, cut=cut, past=past)
    with rows.source.cursor() as reading, rows.target.cursor() as writing:
        with reading.copy(text.encode()) as out, writing.copy(sql.copy_in(table).encode()) as into:
            for data in out:
                into.write(data)
        if reading.rowcount != writing.rowcount:
            raise CopyError(f"{reading.rowcount} rows of {table.name} became {writing.rowcount}")
        rows.counts[table.name] = rows.counts.get(table.name, 0) + writing.rowcount


def _copy_specs(rows: Rows) -> None:
    for spec_id, spec in rows.source.execute(sql.SPECS, rows.range).fetchall():
        rows.target.execute(sql.PUT_SPEC, (spec_id, Jsonb(spec)))
        same = rows.target.execute(sql.SAME_SPEC, (Jsonb(spec), spec_id)).fetchone()
        if same is None or not same[0]:
            raise CopyError(f"spec {spec_id} is another one in the target")


def _make_days(rows: Rows) -> None:
    """The target gets every day partition that the source has."""
    missing = sorted(existing_days(rows.source) - existing_days(rows.target))
    if not missing:
        return
    with rows.target.transaction():
        rows.target.execute(days.LOCK_SQL)
        for day in missing:
            for statement in days.create_statements(day):
                rows.target.execute(statement.encode())


def existing_days(conn: Connection) -> set[date]:
    """The days that have a partition of `runs`."""
    found = conn.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'runs'::regclass"
    )
    return {
        datetime.strptime(name.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC).date() for (name,) in found
    }


def clean(conn: Connection, first: int, last: int) -> int:
    """Delete every row of the range from a shard that does not have it, in batches; how many."""
    daily = [f"{table.name}_{day:%Y%m%d}" for table in sql.HISTORY for day in sorted(existing_days(conn))]
    deleted = 0
    for physical in [*daily, *(table.name for table in sql.WHOLE)]:
        statement = sql.delete_batch(physical).encode()
        while True:
            with conn.transaction():
                conn.execute(sql.BYPASS)
                count = conn.execute(statement, {"first": first, "last": last, "limit": BATCH}).rowcount
            deleted += count
            if count < BATCH:
                break
    return deleted


def raise_fence(conn: Connection, first: int, last: int) -> None:
    """The triggers of a range, on every table. The lock on each waits for the writers that are under way."""
    there = set(_fences(conn))
    for table in (table.name for table in sql.FENCED):

        def raised(table: str = table) -> None:
            conn.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE".encode())
            if (table, sql.fence_name(first, last)) not in there:
                for statement in sql.create_fence(table, first, last):
                    conn.execute(statement.encode())

        _locking(conn, raised)


def drop_fences(conn: Connection) -> None:
    """Take down the fences none of whose partitions is, or may be, refused any more."""
    for table, name in _fences(conn):
        match = _FENCE.fullmatch(name)
        if match is None:
            continue
        span = {"first": int(match[1]), "last": int(match[2])}
        refused = conn.execute(sql.REFUSED, span).fetchone()
        if refused is not None and not refused[0]:
            drop = f"DROP TRIGGER IF EXISTS {name} ON {table}".encode()
            _locking(conn, lambda drop=drop: conn.execute(drop))  # type: ignore[misc]


def _fences(conn: Connection) -> Iterable[tuple[str, str]]:
    return [(table, name) for table, name in conn.execute(sql.LIVE_FENCES)]


def _locking(conn: Connection, work: Callable[[], object]) -> None:
    for attempt in range(1, _LOCK_TRIES + 1):
        try:
            with conn.transaction():
                conn.execute("SET LOCAL lock_timeout = '500ms'")
                work()
            return
        except psycopg.errors.LockNotAvailable:
            if attempt == _LOCK_TRIES:
                raise
