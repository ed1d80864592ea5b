"""One transaction in one shard, for the API's ordinary statements.

`run` gives the work a connection inside a transaction, commits when it returns and rolls back when it raises.
It repeats the work when nothing of it was kept and another try can succeed: a deadlock, a serialization
failure, `Moved`. A shard that cannot be reached, is not migrated or is too slow raises ShardUnavailableError.

Weakness: when the connection breaks during the commit the outcome is unknown; the caller gets
ShardUnavailableError, and only an idempotency key tells whether the effect is there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import psycopg.errors as pg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, ProgrammingError, TimeoutError

from tocsin.errors import ShardUnavailableError
from tocsin.store.shards import Shard, engine_for

T = TypeVar("T")
STATEMENT_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_MS = 5_000
TRIES = 5


class Moved(Exception):
    """What was read before a lock is no longer true after it: roll back and begin again."""


def run(shard: Shard, work: Callable[[Connection], T]) -> T:
    """Run `work` in a transaction of this shard; at most TRIES times."""
    for attempt in range(1, TRIES + 1):
        try:
            return _once(shard, work)
        except Moved:
            error: Exception = ShardUnavailableError("the job is being changed by many at once")
        except (OperationalError, InterfaceError, TimeoutError) as cause:
            if not _repeatable(cause):
                raise ShardUnavailableError(_words(shard, cause)) from cause
            error = ShardUnavailableError(_words(shard, cause))
        except ProgrammingError as cause:
            if isinstance(cause.orig, pg.UndefinedTable | pg.UndefinedColumn | pg.InvalidSchemaName):
                raise ShardUnavailableError(
                    f"shard {shard.name} is not migrated: run tocsin db upgrade"
                ) from cause
            raise
        if attempt == TRIES:
            raise error
    raise AssertionError("unreachable")


def _once(shard: Shard, work: Callable[[Connection], T]) -> T:
    with engine_for(shard.url).begin() as conn:
        conn.execute(
            text("SELECT set_config('statement_timeout', :s, true), set_config('lock_timeout', :l, true)"),
            {"s": str(STATEMENT_TIMEOUT_MS), "l": str(LOCK_TIMEOUT_MS)},
        )
        return work(conn)


def _repeatable(error: Exception) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else None
    return isinstance(cause, pg.DeadlockDetected | pg.SerializationFailure)


def _words(shard: Shard, error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    match cause:
        case pg.LockNotAvailable() | pg.DeadlockDetected() | pg.SerializationFailure():
            return f"shard {shard.name}: the rows are locked by others for too long"
        case pg.QueryCanceled():
            return f"shard {shard.name}: the statement took longer than {STATEMENT_TIMEOUT_MS} ms"
        case TimeoutError():
            return f"shard {shard.name}: no free connection"
        case _:
            return f"shard {shard.name} cannot be reached"


def database_now(conn: Connection) -> datetime:
    """The instant by the shard's clock, which decides what is due."""
    now: datetime = conn.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now
