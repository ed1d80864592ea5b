"""Where partitions are: reading it from a database, and saying so to the one that a move arrived in.

The statements of `shard_moves` that every process needs; those of the mover are in `moves_sql.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from tocsin.errors import ShardUnavailableError
from tocsin.store.shard_map import Place, Report, Shard, ShardMap

MOVED = "TS001"  # the SQLSTATE of a write to a partition that is not to be written here

# Index: shard_moves_pkey is not needed: the table has the moved partitions only.
READ = """
SELECT i.identity, m.partition_id, m.generation, m.moved_to, coalesce(m.lease_until > clock_timestamp(), false)
FROM shard_identity i LEFT JOIN shard_moves m ON true
"""

# Index: shard_moves_pkey.
OPEN = """
INSERT INTO shard_moves AS m (partition_id, generation)
SELECT * FROM unnest(%s::int2[], %s::int8[]) ON CONFLICT (partition_id) DO UPDATE
SET generation = excluded.generation, moved_to = NULL, leaving_to = NULL, mover = NULL, lease_until = NULL
WHERE m.generation < excluded.generation
"""

# Index: shard_moves_pkey. Of these partitions, those that are elsewhere by now.
AWAY = "SELECT partition_id FROM shard_moves WHERE partition_id = ANY(%s) AND moved_to IS NOT NULL"


class MovedError(ShardUnavailableError):
    """The shard does not have the partition any more, or is about to lose it: learn where it is, try again."""


def report_of(rows: Sequence[Sequence[Any]]) -> Report:
    """From the rows of READ."""
    if not rows:
        raise ShardUnavailableError("the database has no identity: run tocsin db upgrade")
    return Report(
        identity=rows[0][0],
        places={
            row[1]: Place(generation=row[2], moved_to=row[3], moving=row[4])
            for row in rows
            if row[1] is not None
        },
    )


def learn(conn: psycopg.Connection[Any], shards: ShardMap, shard: Shard) -> None:
    """Ask the shard where its partitions are; open those that have arrived. One statement, usually."""
    arrived = shards.learn(shard, report_of(conn.execute(READ).fetchall()))
    if arrived:
        conn.execute(OPEN, opening(arrived))
        shards.learn(shard, report_of(conn.execute(READ).fetchall()))


def opening(arrived: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """The parameters of OPEN."""
    return list(arrived), list(arrived.values())


async def learn_async(conn: psycopg.AsyncConnection[Any], shards: ShardMap, shard: Shard) -> None:
    """`learn` on a worker's connection."""
    arrived = shards.learn(shard, report_of(await (await conn.execute(READ)).fetchall()))
    if arrived:
        await conn.execute(OPEN, opening(arrived))
        shards.learn(shard, report_of(await (await conn.execute(READ)).fetchall()))


async def away_async(conn: psycopg.AsyncConnection[Any], partitions: Iterable[int]) -> set[int]:
    """Those of the partitions that are elsewhere. Asks nothing when there are none to ask about."""
    wanted = sorted(set(partitions))
    if not wanted:
        return set()
    return {p for (p,) in await (await conn.execute(AWAY, (wanted,))).fetchall()}


def is_moved(error: BaseException) -> bool:
    """Whether a write was refused because its partition moves."""
    cause = getattr(error, "orig", None) or error
    return isinstance(cause, psycopg.Error) and cause.sqlstate == MOVED
