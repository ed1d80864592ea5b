"""Writes how attempts ended, in batches, until it is written or the lease has certainly expired.

An attempt without a result has lost its lease: it is dropped and counted, nothing is written. A batch that
the database refuses for what is in it is halved until the culprit stands alone; that one is then written as
an internal failure without its texts and output, so that no run hangs on what its target answered.
A result whose partition has moved is written in the shard that has it (`following`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from tocsin import clock
from tocsin.errors import ShardUnavailableError
from tocsin.ids import RunKey
from tocsin.model.status import Reason, RunStatus
from tocsin.settings import Settings
from tocsin.store import callbacks, places
from tocsin.store.leases import Connection, Ending, Result
from tocsin.store.shards import Shard
from tocsin_tasks.attempts import Attempt, Attempts
from tocsin_tasks.counters import Counters
from tocsin_tasks.events import TaskEvents
from tocsin_tasks.following import ASK_SECONDS, Follower
from tocsin_tasks.link import STATEMENT_SECONDS, Link
from tocsin_tasks.outcome import conclude, failed

logger = logging.getLogger(__name__)
FINISH_BYTES = 4_194_304


class Finisher:
    """The finishing half of a lane."""

    def __init__(
        self,
        shard: Shard,
        settings: Settings,
        *,
        attempts: Attempts,
        counters: Counters,
        events: TaskEvents | None = None,
        finisher_of: Callable[[int], Finisher],
    ) -> None:
        self.link = Link(shard.dsn, shard.name)
        self._follow = Follower(shard=shard, shards=settings.shards, link=self.link)
        self._finisher_of = finisher_of
        self._batch = settings.claim_batch
        self._events = events
        self._attempts, self._counters = attempts, counters
        self._ended: deque[Attempt] = deque()
        self._added = asyncio.Event()

    def add(self, attempt: Attempt) -> None:
        """An attempt is over."""
        if attempt.result is None:
            self._drop(attempt)
        else:
            self._ended.append(attempt)
            self._added.set()

    async def finish_forever(self) -> None:
        """Write results until cancelled."""
        while True:
            await self._added.wait()
            self._added.clear()
            while self._ended:
                if await self._follow.learn_if_waiting(a.key.partition for a in self._ended):
                    self._pass_on()
                batch = self._take()
                if batch:
                    await self._finish(batch)
                elif self._ended:  # all that is left is being moved
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._added.wait(), ASK_SECONDS)
                    self._added.clear()

    def _pass_on(self) -> None:
        """Attempts of partitions that another shard has by now are written there."""
        ended = list(self._ended)
        self._ended.clear()
        for attempt in ended:
            self._finisher_of(attempt.key.partition).add(attempt)

    def _take(self) -> list[Attempt]:
        batch: list[Attempt] = []
        waiting: list[Attempt] = []
        size = 0
        now = clock.monotonic()
        while self._ended and len(batch) < self._batch and size < FINISH_BYTES:
            attempt = self._ended.popleft()
            if now > attempt.lease_end + STATEMENT_SECONDS:
                logger.warning("result of %s discarded: it could not be written in time", attempt.key)
                self._drop(attempt)
                continue
            if self._follow.waits(attempt.key.partition):
                waiting.append(attempt)
                continue
            batch.append(attempt)
            output = attempt.result.output if attempt.result else None
            size += len(output.content) if output else 0
        self._ended.extendleft(reversed(waiting))
        return batch

    async def _finish(self, batch: Sequence[Attempt]) -> None:
        results = [attempt.result for attempt in batch if attempt.result is not None]
        try:
            written, away = await self.link.run(lambda conn: _write(conn, results))
        except ShardUnavailableError:
            self._counters.store_errors += 1
            self._ended.extendleft(reversed(batch))
            self._pass_on()  # its partitions may be known to be elsewhere
            await self.link.pause()
        except Exception as error:
            if places.is_moved(error):
                await self._put_back(batch)
            else:
                await self._refused(batch, error)
        else:
            moved = [a for a in batch if a.key not in written and a.key.partition in away]
            for attempt in batch:
                if attempt not in moved:
                    self._count(attempt, written.get(attempt.key))
                    self._attempts.remove(attempt)
            if moved:
                await self._put_back(moved)

    async def _put_back(self, batch: Sequence[Attempt]) -> None:
        """These were refused because their partitions move: learn where they are, and write them there."""
        self._ended.extendleft(reversed(batch))
        self._added.set()
        await self._follow.learn()
        self._pass_on()

    async def _refused(self, batch: Sequence[Attempt], error: Exception) -> None:
        self._counters.store_errors += 1
        if len(batch) > 1:
            await self._finish(batch[: len(batch) // 2])
            await self._finish(batch[len(batch) // 2 :])
            return
        (attempt,) = batch
        logger.error("the database refused the result of %s", attempt.key, exc_info=error)
        plain = conclude(attempt.claimed, failed(Reason.INTERNAL, "the result could not be stored"))
        if attempt.result is None or attempt.result.error == plain.error:
            self._drop(attempt)  # the lease runs out, and the reaper decides
        else:
            attempt.result = plain
            await self._finish(batch)

    def _drop(self, attempt: Attempt) -> None:
        self._counters.lost += 1
        self._tell(attempt, None)
        self._attempts.remove(attempt)

    def _tell(self, attempt: Attempt, status: RunStatus | None) -> None:
        if self._events is not None:
            self._events.ended(attempt, status)

    def _count(self, attempt: Attempt, status: RunStatus | None) -> None:
        self._tell(attempt, status)
        match status:
            case RunStatus.SUCCEEDED:
                self._counters.succeeded += 1
            case RunStatus.FAILED:
                self._counters.failed += 1
            case RunStatus.CANCELLED:
                self._counters.cancelled += 1
            case RunStatus.SCHEDULED:
                self._counters.retried += 1
            case RunStatus.RUNNING:
                self._counters.handed_over += 1
            case None if attempt.result is not None and attempt.result.ending is Ending.CALLBACK:
                self._counters.handed_over += 1  # its target has called back already
            case _:
                logger.warning("result of %s discarded: its lease was lost", attempt.key)
                self._counters.lost += 1


async def _write(conn: Connection, results: Sequence[Result]) -> tuple[dict[RunKey, RunStatus], set[int]]:
    """The status of each run that was written, and the partitions of the others that are elsewhere."""
    written = await callbacks.finish(conn, results)
    missing = (result.lease.key.partition for result in results if result.lease.key not in written)
    return written, await places.away_async(conn, missing)
