"""A move between the two test shards, and what lies where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tocsin.ids import PARTITIONS
from tocsin.settings import Settings
from tocsin.store.moving import Moved, Plan, move
from tocsin.store.shards import ShardMap, connect

FIRST, LAST = 100, 199
TABLES = ("jobs", "triggers", "runs", "attempts", "run_outputs", "gaps", "partitions", "idempotency_keys")


def fresh_map(sharded: str) -> ShardMap:
    """The map of a process that has just started."""
    return Settings(database_url=sharded).shards


def plan(shards: ShardMap, source: int, target: int, **more: Any) -> Plan:
    """Partitions 100-199 from one shard to another, by their numbers; nothing is waited for."""
    given = {"first": FIRST, "last": LAST, "settle": 0.0, **more}
    return Plan(source=shards.shards[source], target=shards.shards[target], **given)


def moved(sharded: str, source: int = 0, target: int = 1, **more: Any) -> Moved:
    """Make the move as a process of its own would, with a map that knows nothing yet."""
    hooks = {name: more.pop(name) for name in ("say", "reached") if name in more}
    shards = fresh_map(sharded)
    return move(shards, plan(shards, source, target, **more), **hooks)


@contextmanager
def databases_of(urls: list[str]) -> Iterator[list[psycopg.Connection[Any]]]:
    """A connection to each."""
    connections = [connect(url) for url in urls]
    try:
        yield connections
    finally:
        for conn in connections:
            conn.close()


def rows(conn: psycopg.Connection[Any], table: str, first: int = FIRST, last: int = LAST) -> list[str]:
    """Every row of a table in these partitions, as text, in order."""
    found = conn.execute(
        f"SELECT x::text FROM {table} x WHERE partition_id BETWEEN %s AND %s ORDER BY 1",  # type: ignore[arg-type]
        (first, last),
    )
    return [row for (row,) in found]


def contents(conn: psycopg.Connection[Any], first: int = FIRST, last: int = LAST) -> dict[str, list[str]]:
    """All rows of all tables that move; of `partitions` without what a move changes."""
    found = {table: rows(conn, table, first, last) for table in TABLES if table != "partitions"}
    found["partitions"] = [
        str(row)
        for row in conn.execute(
            "SELECT partition_id, watermark::text FROM partitions WHERE partition_id BETWEEN %s AND %s ORDER BY 1",
            (first, last),
        )
    ]
    return found


def epochs(conn: psycopg.Connection[Any]) -> dict[int, int]:
    return dict(
        conn.execute(
            "SELECT partition_id, epoch FROM partitions WHERE partition_id BETWEEN %s AND %s", (FIRST, LAST)
        )
    )


EVERYWHERE = (0, PARTITIONS - 1)
