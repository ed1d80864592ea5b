"""`tocsin db upgrade`: the migrations of one shard, the partition rows of its range, the day partitions.

Several processes may upgrade at once: an advisory lock lets one work and the others find nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from tocsin.errors import TocsinError
from tocsin.ids import PARTITIONS
from tocsin.store import days
from tocsin.store.connections import sqlalchemy_url

_LOCK = 0x70C51


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest revision that this version of the program knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def current(connection: Connection) -> str | None:
    """The revision of this database, or None when it has never been upgraded."""
    return MigrationContext.configure(connection).get_current_revision()


class PooledError(TocsinError):
    """The migrations hold a lock of the session, which a pooler does not give."""

    code = "pooled"


def _check_direct(connection: Connection) -> None:
    told = cast("psycopg.Connection[Any]", connection.connection.driver_connection).info.backend_pid
    if connection.execute(text("SELECT pg_backend_pid()")).scalar_one() != told:
        raise PooledError("a pooler stands before the database; name it directly in TOCSIN_DIRECT_URL")
    connection.rollback()


def upgrade(
    url: str,
    *,
    first: int = 0,
    last: int = PARTITIONS - 1,
    partitions: Collection[int] | None = None,
    days_back: int = 1,
    days_ahead: int = 7,
) -> None:
    """Bring one shard, which holds partitions `first` to `last`, to the newest schema. Safe to repeat.

    `partitions` names them one by one instead. Raises PooledError when a pooler stands in between.
    """
    wanted = sorted(range(first, last + 1) if partitions is None else partitions)
    engine = create_engine(sqlalchemy_url(url), poolclass=NullPool)
    with engine.connect() as connection:
        _check_direct(connection)
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
        connection.commit()
        try:
            command.upgrade(_config(connection), "head")
            connection.execute(
                text(
                    "INSERT INTO partitions (partition_id) SELECT p FROM unnest(CAST(:wanted AS int2[])) AS p "
                    "WHERE p NOT IN (SELECT partition_id FROM shard_moves WHERE moved_to IS NOT NULL) "
                    "ON CONFLICT DO NOTHING"
                ),
                {"wanted": wanted},
            )
            days.make_ahead(connection, back=days_back, ahead=days_ahead)
            connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
            connection.commit()
    engine.dispose()
