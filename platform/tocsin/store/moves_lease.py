"""Keeps the lease of a move while it copies, from a thread and a connection of its own."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from tocsin.clock import monotonic
from tocsin.store import moves_sql as sql
from tocsin.store.connections import connect


class Keeper:
    """Renews every `interval` seconds until it is stopped, fails, or `longest` seconds are over.

    It never brings a lease back that has ended: `moves_sql` says how. When it fails, the lease ends, and the
    switch finds that it has.
    """

    def __init__(self, url: str, args: dict[str, Any], interval: float, longest: float) -> None:
        self._url, self._args = url, args
        self._interval, self._longest = interval, longest
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="move-lease", daemon=True)

    def stop(self) -> None:
        """Renew no more; waits for the renewal under way."""
        self._stopping.set()
        self.thread.join()

    def _run(self) -> None:
        end = monotonic() + self._longest
        try:
            with connect(self._url) as conn:
                while not self._stopping.wait(self._interval) and monotonic() < end:
                    if not renew(conn, self._args):
                        return
        except psycopg.Error:
            return


def renew(conn: psycopg.Connection[Any], args: dict[str, Any]) -> bool:
    """Extend the lease; False when it has ended."""
    with conn.transaction():
        conn.execute(sql.LOCK_LEASE, args)
        return bool(conn.execute(sql.RENEW_LEASE, args).fetchall())
