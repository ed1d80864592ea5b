"""How a worker follows partitions that move to another shard.

A write to one is refused (`places.is_moved`), or finds nothing where the rows are gone already; then the shard is
asked where its partitions are. What belongs to another shard's lane by now goes there; what is still being moved
waits, and the shard is asked again every ASK_SECONDS. Nothing is acked, dropped or called lost meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import psycopg

from tocsin import clock
from tocsin.errors import ShardUnavailableError
from tocsin.store import places
from tocsin.store.shards import Shard, ShardMap
from tocsin_tasks.link import Link

logger = logging.getLogger(__name__)
ASK_SECONDS = 0.2


@dataclass(slots=True, kw_only=True)
class Follower:
    """What one loop of a lane knows of its shard's partitions; it asks over the loop's own link."""

    shard: Shard
    shards: ShardMap
    link: Link
    _asked_at: float = field(default=float("-inf"), init=False)

    def here(self, partition: int) -> bool:
        """Whether the partition is this shard's, moving or not."""
        return self.shards.shard_of(partition) == self.shard

    def waits(self, partition: int) -> bool:
        """Whether the partition is being moved: no write to it can succeed."""
        return self.shards.moving(partition)

    async def learn(self) -> None:
        """Ask the shard; when it does not answer, what is known stays."""
        self._asked_at = clock.monotonic()
        try:
            await self.link.run(lambda conn: places.learn_async(conn, self.shards, self.shard))
        except ShardUnavailableError:
            return
        except psycopg.Error as error:
            logger.error("shard %s does not say what it holds: %s", self.shard.name, str(error).strip())

    async def learn_if_waiting(self, partitions: Iterable[int]) -> bool:
        """Ask again, at most every ASK_SECONDS, while one of these is being moved. True when asked."""
        if clock.monotonic() - self._asked_at < ASK_SECONDS or not any(map(self.waits, partitions)):
            return False
        await self.learn()
        return True
