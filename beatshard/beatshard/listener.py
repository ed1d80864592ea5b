"""LISTEN on a connection of its own: a hint that something is due sooner than the last look ahead has seen.

Polling alone suffices; a lost notification costs one poll interval. LISTEN needs a session, which a pooler in
transaction mode does not give: the listener goes to the direct address (TOCSIN_DIRECT_URL), and without one behind
a pooler it says so once and leaves it at polling.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg

from tocsin.store.shards import Shard, connect

log = logging.getLogger(__name__)
_WAIT = 1.0  # seconds between two looks at whether to stop
_PAUSE = 2.0  # seconds before a new connection


class Listener:
    """A daemon thread that calls `wake` for every notification on channel `tocsin`."""

    def __init__(self, shard: Shard, wake: Callable[[], None]) -> None:
        self._shard = shard
        self._wake = wake
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"listen-{shard.name}", daemon=True)

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect(self._shard.direct) as conn:
                    if conn.pooled:
                        log.warning(
                            "no_hints shard=%s: a pooler passes no notifications on, triggers made at short notice "
                            "wait for the next poll; set TOCSIN_DIRECT_URL",
                            self._shard.name,
                        )
                        return
                    self._listen(conn)
            except psycopg.Error as error:
                log.debug("listener lost its connection: %s", error)
                self._stopping.wait(_PAUSE)

    def _listen(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        conn.execute("LISTEN tocsin")
        while not self._stopping.is_set():
            for _ in conn.notifies(timeout=_WAIT, stop_after=1):
                self._wake()
