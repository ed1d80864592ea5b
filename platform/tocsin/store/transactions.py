"""One transaction in one shard, for the API's ordinary statements.

`at` finds the shard of a partition and follows it when it has moved; `run` is one shard. Both give the work a
connection inside a transaction, commit when it returns and roll back when it raises. The work is repeated
when nothing of it was kept and another try can succeed: a deadlock, a serialization failure, `Moved`. A shard that
cannot be reached, is not migrated or is too slow raises ShardUnavailableError.

Weakness: when the connection breaks during the commit the outcome is unknown; the caller gets
ShardUnavailableError, and only an idempotency key tells whether the effect is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar, cast

import psycopg
import psycopg.errors as pg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, TimeoutError

from tocsin.errors import ShardUnavailableError
from tocsin.store import places
from tocsin.store.gates import UnreachableError, gate_of
from tocsin.store.places import MovedError
from tocsin.store.shards import Shard, ShardMap, engine_for

T = TypeVar("T")
STATEMENT_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_MS = 5_000
TRIES = 5
HOPS = 6  # shards asked for one partition

# Index: shard_moves_pkey. The last column: whether the partition is elsewhere.
_BEGIN = text(
    "SELECT set_config('statement_timeout', :s, true), set_config('lock_timeout', :l, true),"
    " EXISTS (SELECT FROM shard_moves WHERE partition_id = :p AND moved_to IS NOT NULL)"
)
_BEGIN_ANYWHERE = text(
    "SELECT set_config('statement_timeout', :s, true), set_config('lock_timeout', :l, true), false"
)


class Moved(Exception):
    """What was read before a lock is no longer true after it: roll back and begin again."""


def at(shards: ShardMap, partition: int, work: Callable[[Connection, Shard], T]) -> T:
    """Run `work` in a transaction of the shard that has the partition, wherever it has moved."""
    for _ in range(HOPS):
        shard = shards.shard_of(partition)
        try:
            return run(shard, lambda conn, shard=shard: work(conn, shard), partition)  # type: ignore[misc]
        except MovedError:
            refresh(shards, shard)
            if shards.moving(partition):
                break
            if partition in shards.lost:
                raise _lost() from None
        except UnreachableError:
            # Those that arrived elsewhere are known there.
            _ask(shards, [other for other in shards.shards if other != shard])
            if shards.shard_of(partition) == shard:
                raise
    raise MovedError(f"partition {partition} is being moved to another shard")


def refresh(shards: ShardMap, shard: Shard) -> None:
    """Ask a shard where its partitions are, and those it names and nobody knows. Raises ShardUnavailableError."""
    _learn(shards, shard)
    if shards.lost:
        _ask(shards, [other for other in shards.shards if shards.report_of(other) is None])


def _ask(shards: ShardMap, others: Iterable[Shard]) -> None:
    for other in others:
        with suppress(ShardUnavailableError):
            _learn(shards, other)


def _learn(shards: ShardMap, shard: Shard) -> None:
    run(shard, lambda conn: places.learn(driver(conn), shards, shard))


def _lost() -> ShardUnavailableError:
    return ShardUnavailableError(
        "the partition was moved to a database that cannot be reached, or that TOCSIN_DATABASE_URL does not name"
    )


def driver(conn: Connection) -> psycopg.Connection[Any]:
    """psycopg's own connection, inside the same transaction."""
    return cast("psycopg.Connection[Any]", conn.connection.driver_connection)


def run(shard: Shard, work: Callable[[Connection], T], partition: int | None = None) -> T:
    """Run `work` in a transaction of this shard; at most TRIES times.

    Raises MovedError when the shard does not have the `partition`.
    """
    for attempt in range(1, TRIES + 1):
        try:
            return _once(shard, work, partition)
        except Moved:
            error: Exception = ShardUnavailableError("the job is being changed by many at once")
        except _Again as again:
            error = again.error
        if attempt == TRIES:
            raise error
    raise AssertionError("unreachable")


class _Again(Exception):
    """Nothing was kept, and another try can succeed."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _once(shard: Shard, work: Callable[[Connection], T], partition: int | None) -> T:
    with gate_of(shard.url).passing(shard.name):
        try:
            with engine_for(shard.url).begin() as conn:
                _begin(conn, shard, partition)
                return work(conn)
        except (DBAPIError, TimeoutError, psycopg.Error) as cause:
            raise _translated(shard, cause) from cause


def _begin(conn: Connection, shard: Shard, partition: int | None) -> None:
    times = {"s": str(STATEMENT_TIMEOUT_MS), "l": str(LOCK_TIMEOUT_MS)}
    if partition is None:
        conn.execute(_BEGIN_ANYWHERE, times)
    elif conn.execute(_BEGIN, {**times, "p": partition}).one()[2]:
        raise MovedError(f"partition {partition} is not in shard {shard.name} any more")


def _translated(shard: Shard, error: Exception) -> Exception:
    """What the caller gets for an error of the database; the error itself when it is none of the shard's state."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if places.is_moved(error):
        return MovedError(str(cause))
    match cause:
        case pg.DeadlockDetected() | pg.SerializationFailure():
            return _Again(
                ShardUnavailableError(f"shard {shard.name}: the rows are locked by others for too long")
            )
        case pg.LockNotAvailable():
            return ShardUnavailableError(f"shard {shard.name}: the rows are locked by others for too long")
        case pg.QueryCanceled():
            return ShardUnavailableError(
                f"shard {shard.name}: the statement took longer than {STATEMENT_TIMEOUT_MS} ms"
            )
        case TimeoutError():
            return ShardUnavailableError(f"shard {shard.name}: no free connection")
        case pg.UndefinedTable() | pg.UndefinedColumn() | pg.InvalidSchemaName():
            return ShardUnavailableError(f"shard {shard.name} is not migrated: run tocsin db upgrade")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return UnreachableError(f"shard {shard.name} cannot be reached")
        case _:
            return error


def database_now(conn: Connection) -> datetime:
    """The instant by the shard's clock, which decides what is due."""
    now: datetime = conn.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now
