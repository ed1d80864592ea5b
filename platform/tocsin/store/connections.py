"""Connections to a shard, directly or through PgBouncer in transaction mode.

Nothing is sent as the startup parameter `options`, which PgBouncer refuses. The time zone is set after the
connection is open; PgBouncer carries it along. Other settings of a session would stay behind on whichever server
connection the pooler had given: behind a pooler they are set per transaction instead, so statements that need
them run inside `transaction` or `tuned`. A pooler is recognised by the backend's pid: the one that the client was
told is not the one that answers.

A host that went silent is noticed: after 10 s without an acknowledgement of what was sent, or 25 s of silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from sqlalchemy import Engine, create_engine, event

TCP: Mapping[str, Any] = {
    "connect_timeout": 5,  # seconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
UTC_SQL = "SET TimeZone = 'UTC'"
_SCHEME = re.compile(r"^postgres(ql)?(\+psycopg)?://")
DEFAULT_SESSION: Mapping[str, str] = {"idle_in_transaction_session_timeout": "60s"}


class Connection(psycopg.Connection[Any]):
    """A connection that knows what to set at the begin of each transaction (nothing, when it is direct)."""

    local: str = ""
    pooled: bool = False  # whether a pooler stands in between


def libpq_url(url: str) -> str:
    """The same address for psycopg itself."""
    return _SCHEME.sub("postgresql://", url)


def sqlalchemy_url(url: str) -> str:
    """The same address for SQLAlchemy."""
    return _SCHEME.sub("postgresql+psycopg://", url)


def settings_sql(session: Mapping[str, str], *, local: bool) -> str:
    """The statements that set these parameters, for the session or for the transaction under way."""
    word = "SET LOCAL" if local else "SET"
    return "; ".join(f"{word} {name} = '{value}'" for name, value in session.items())


def connect(url: str, *, autocommit: bool = True, session: Mapping[str, str] = DEFAULT_SESSION) -> Connection:
    """A connection of one's own, for the hot statements; the caller closes it. Raises psycopg.Error."""
    conn = Connection.connect(
        libpq_url(url), autocommit=True, prepare_threshold=None, application_name="tocsin", **TCP
    )
    try:
        conn.execute(UTC_SQL)
        conn.pooled = is_pooled(conn)
        if conn.pooled:
            conn.local = settings_sql(session, local=True)
        elif session:
            conn.execute(settings_sql(session, local=False).encode())
        conn.autocommit = autocommit
    except BaseException:
        conn.close()
        raise
    return conn


def is_pooled(conn: psycopg.Connection[Any]) -> bool:
    """Whether another process answers than the one that the client was connected to."""
    row = conn.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != conn.info.backend_pid


@contextmanager
def transaction(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """A transaction in which the session's settings hold."""
    with conn.transaction():
        local = getattr(conn, "local", "")
        if local:
            conn.execute(local.encode())
        yield


@contextmanager
def tuned(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """For single statements: a transaction only where the session's settings need one."""
    if getattr(conn, "local", ""):
        with transaction(conn):
            yield
    else:
        yield


@cache
def engine_for(url: str) -> Engine:
    """The pooled engine of a database, one per process and address.

    No server-side prepared statements, so that PgBouncer's transaction mode serves too.
    """
    engine = create_engine(
        sqlalchemy_url(url),
        pool_size=10,
        max_overflow=10,
        pool_timeout=5,
        pool_pre_ping=True,
        connect_args={"prepare_threshold": None, "application_name": "tocsin", **TCP},
    )
    event.listen(engine, "connect", _in_utc)
    return engine


def _in_utc(conn: Any, _record: object) -> None:
    before, conn.autocommit = conn.autocommit, True
    conn.execute(UTC_SQL)
    conn.autocommit = before
