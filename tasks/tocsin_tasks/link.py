"""A connection to one shard that comes back: opened on first use, dropped when it breaks.

A statement is given STATEMENT_SECONDS. One that takes longer (a host that went silent) is left to itself on
its connection, and the next statement opens another; whether the first was committed is unknown then, which
is why every statement here may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from tocsin.errors import ShardUnavailableError
from tocsin.store.leases import Connection, connect

logger = logging.getLogger(__name__)

T = TypeVar("T")
STATEMENT_SECONDS = 10.0
BACKOFF_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)


class Link:
    """One connection to one shard, used by one task at a time."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self.name = name
        self._conn: Connection | None = None
        self._failures = 0

    async def run(self, statement: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a statement. Raises ShardUnavailableError when it should be tried again later."""
        try:
            conn = await self._open()
            work = asyncio.ensure_future(statement(conn))
            done, _ = await asyncio.wait({work}, timeout=STATEMENT_SECONDS)
            if not done:
                self._abandon(work)
                raise ShardUnavailableError(f"no answer within {STATEMENT_SECONDS:g} s")
            result = work.result()
        except (psycopg.OperationalError, psycopg.InterfaceError, OSError, ShardUnavailableError) as error:
            await self._failed(error)
            raise ShardUnavailableError(str(error)) from error
        self._failures = 0
        return result

    async def pause(self) -> None:
        """Wait before the next try, longer after each failure in a row."""
        await asyncio.sleep(BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS)) - 1])

    async def close(self) -> None:
        """Close the connection, if there is one."""
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()

    async def _open(self) -> Connection:
        if self._conn is None or self._conn.closed:
            self._conn = await connect(self._url)
        return self._conn

    def _abandon(self, work: asyncio.Future[T]) -> None:
        self._conn = None
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        work.cancel()

    async def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            logger.warning("shard %s cannot be reached: %s", self.name, str(error).strip()[:300])
        if self._conn is not None and (self._conn.closed or self._conn.broken):
            await self.close()
