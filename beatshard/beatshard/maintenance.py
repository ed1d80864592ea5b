"""Once an hour, by the owner of a shard's first partition: day partitions ahead, old days and keys dropped.

In a thread with connections of its own, so that dropping a day never delays a firing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy.exc import DBAPIError

from beatshard.shard_loop import ShardLoop
from tocsin import clock
from tocsin.settings import Settings
from tocsin.store import days, idempotency
from tocsin.store.shards import Shard, engine_for

log = logging.getLogger(__name__)
_EVERY = 3600.0  # seconds
_RETRY = 10.0  # seconds: nothing is owned yet, or the database did not answer


class Maintenance:
    """Looks after every shard whose first partition this node owns."""

    def __init__(self, loops: Sequence[ShardLoop], settings: Settings) -> None:
        self._loops = loops
        self._settings = settings
        self._done_at: dict[str, float] = {}
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(_RETRY):
            self.run_once(clock.monotonic())

    def run_once(self, now: float) -> list[str]:
        """Maintain what is due; returns the names of the shards."""
        done = []
        for loop in self._loops:
            last = self._done_at.get(loop.shard.name)
            if not loop.owns_first or (last is not None and now - last < _EVERY):
                continue
            try:
                self._maintain(loop.shard)
            except DBAPIError as error:
                log.warning("maintenance_failed shard=%s error=%s", loop.shard.name, error.orig)
                continue
            self._done_at[loop.shard.name] = now
            done.append(loop.shard.name)
        return done

    def _maintain(self, shard: Shard) -> None:
        url = shard.url
        with engine_for(url).begin() as connection:
            made = days.make_ahead(connection, back=1, ahead=self._settings.days_ahead)
        with engine_for(url).begin() as connection:
            idempotency.purge(connection)
        # Directly: it sets a parameter of its session.
        with engine_for(shard.direct).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            oldest = clock.now().date() - timedelta(days=self._settings.retention_days)
            dropped = days.drop_before(connection, oldest)
        if made or dropped:
            log.info("days_maintained made=%d dropped=%d", len(made), len(dropped))
