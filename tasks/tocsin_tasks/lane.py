"""One shard's lane through a worker: claim what has arrived, execute it, write how it ended.

Claiming and finishing each have a connection and take whatever has gathered while the last statement ran, up
to `claim_batch`. A message is acked when its claim is committed or lost, never before. While the shard cannot
be reached its messages wait `message_hold` and then go back to the broker, so that they do not fill the
prefetch window that other shards need. A result is tried until its lease has certainly expired. Messages whose
partition has moved go to the lane of its shard (`following`).

Limits: deliveries waiting here are bounded by the prefetch count, results by the slots; one finish carries at
most FINISH_BYTES of output.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from tocsin import clock
from tocsin.errors import ShardUnavailableError
from tocsin.ids import RunKey
from tocsin.settings import Settings
from tocsin.store import leases, places
from tocsin.store.leases import Claimed, Connection, Lease
from tocsin.store.shards import Shard
from tocsin_tasks.acks import Acks, Verdict
from tocsin_tasks.attempts import Attempt, Attempts
from tocsin_tasks.counters import Counters
from tocsin_tasks.events import TaskEvents
from tocsin_tasks.finisher import Finisher
from tocsin_tasks.following import ASK_SECONDS, Follower
from tocsin_tasks.link import Link
from tocsin_tasks.strategy import Delivery

logger = logging.getLogger(__name__)


class Lane:
    """The claiming half; `finisher` is the other one."""

    def __init__(
        self,
        shard: Shard,
        settings: Settings,
        *,
        owner: str,
        attempts: Attempts,
        acks: Acks,
        counters: Counters,
        events: TaskEvents | None = None,
        execute: Callable[[Attempt], Awaitable[None]],
        lane_of: Callable[[int], Lane],
    ) -> None:
        self.shard = shard
        self.finisher = Finisher(
            shard,
            settings,
            attempts=attempts,
            counters=counters,
            events=events,
            finisher_of=lambda partition: lane_of(partition).finisher,
        )
        self.beats = Link(shard.dsn, shard.name)
        self._claims = Link(shard.dsn, shard.name)
        self._follow = Follower(shard=shard, shards=settings.shards, link=self._claims)
        self._lane_of = lane_of
        self._owner = owner
        self._lease = timedelta(seconds=settings.run_lease)
        self._batch = settings.claim_batch
        self._hold = settings.message_hold
        self._events = events
        self._attempts, self._acks, self._counters = attempts, acks, counters
        self._execute = execute
        self._waiting: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self._claiming: asyncio.Task[None] | None = None

    def add(self, delivery: Delivery) -> None:
        """A message for this shard has arrived."""
        self._waiting.append(delivery)
        self._arrived.set()

    async def claim_forever(self) -> None:
        """Claim and start attempts until cancelled; see `close` for what is left then."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._follow_moves()
                if not self._waiting:
                    break
                reserved = await self._attempts.reserve(min(len(self._waiting), self._batch))
                batch = self._take(reserved)
                self._attempts.release(reserved - len(batch))
                if not batch:
                    await self._wait_a_little()
                    continue
                # Whoever cancels this loop must not part a committed claim from its attempt.
                self._claiming = asyncio.create_task(self._claim(batch))
                await asyncio.shield(self._claiming)

    async def _follow_moves(self) -> None:
        """Look where partitions are that are being moved, while messages wait for them."""
        if await self._follow.learn_if_waiting(d.key.partition for d in self._waiting):
            self._pass_on()
            self.give_back(older_than=self._hold)

    async def _wait_a_little(self) -> None:
        """All that waits here is being moved."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), ASK_SECONDS)
        self._arrived.clear()

    def _pass_on(self) -> None:
        """Messages of partitions that another shard has by now go to its lane."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for delivery in waiting:
            self._lane_of(delivery.key.partition).add(delivery)

    async def settle_claim(self, seconds: float) -> None:
        """After `claim_forever` was cancelled: wait for the claim that was under way."""
        if self._claiming is not None:
            await asyncio.wait({self._claiming}, timeout=seconds)

    @property
    def waited(self) -> float:
        """Seconds that the oldest message here has waited; 0 when there is none."""
        return clock.monotonic() - self._waiting[0].arrived if self._waiting else 0.0

    def give_back(self, older_than: float = 0.0) -> None:
        """Return the messages that have waited for `older_than` seconds to the broker."""
        limit = clock.monotonic() - older_than
        before = len(self._waiting)
        while self._waiting and self._waiting[0].arrived <= limit:
            self._acks.settle(self._waiting.popleft().message, Verdict.REQUEUE)
            self._counters.requeued += 1
        if len(self._waiting) < before:
            logger.info("%d messages go back to the broker", before - len(self._waiting))

    async def close(self) -> None:
        """Close the connections."""
        for link in (self._claims, self.beats, self.finisher.link):
            await link.close()

    def _take(self, count: int) -> dict[RunKey, Delivery]:
        """The next deliveries, each run once; a second message of one run waits for the next round.

        So does one whose partition is being moved.
        """
        batch: dict[RunKey, Delivery] = {}
        again: list[Delivery] = []
        while self._waiting and len(batch) < count:
            delivery = self._waiting.popleft()
            if delivery.key in batch or self._follow.waits(delivery.key.partition):
                again.append(delivery)
            else:
                batch[delivery.key] = delivery
        self._waiting.extendleft(reversed(again))
        return batch

    async def _claim(self, batch: dict[RunKey, Delivery]) -> None:
        asked = [Lease(key=d.key, attempt=d.attempt, token=d.token) for d in batch.values()]
        sent = clock.monotonic()

        async def statement(conn: Connection) -> tuple[dict[RunKey, Claimed], set[int]]:
            taken = await leases.claim(conn, asked, owner=self._owner, lease=self._lease)
            missing = (key.partition for key in batch if key not in taken)
            return taken, await places.away_async(conn, missing)

        try:
            taken, away = await self._claims.run(statement)
        except Exception as error:
            await self._not_claimed(batch, error)
            return
        moved = [d for key, d in batch.items() if key not in taken and key.partition in away]
        self._counters.claimed += len(taken)
        self._counters.not_claimed += len(batch) - len(taken) - len(moved)
        for delivery in batch.values():
            if delivery not in moved:
                self._acks.settle(delivery.message, Verdict.ACK)
        self._attempts.release(len(batch) - len(taken))
        for claimed in taken.values():
            self._start(claimed, sent, batch[claimed.lease.key].secret)
        if moved:
            await self._put_back(moved)

    def _start(self, claimed: Claimed, sent: float, secret: bytes) -> None:
        """`sent` is before the database's own now, so this worker gives up before the others take over."""
        attempt = Attempt(
            claimed=claimed,
            deadline=sent + claimed.timeout,
            lease_end=sent + self._lease.total_seconds(),
            secret=secret,
        )
        self._attempts.add(attempt)
        if self._events is not None:
            self._events.began(attempt)
        if claimed.lease.attempt == 1:
            self._counters.late_max = max(self._counters.late_max, claimed.lateness)
        attempt.task = asyncio.create_task(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        await self._execute(attempt)
        self.finisher.add(attempt)

    async def _not_claimed(self, batch: dict[RunKey, Delivery], error: Exception) -> None:
        self._attempts.release(len(batch))
        if places.is_moved(error):
            await self._put_back(list(batch.values()))
            return
        self._counters.store_errors += 1
        if not isinstance(error, ShardUnavailableError):
            logger.error("claim failed on shard %s", self.shard.name, exc_info=error)
        self._waiting.extendleft(reversed(batch.values()))
        self._pass_on()  # its partitions may be known to be elsewhere
        self._arrived.set()
        self.give_back(older_than=self._hold)
        await self._claims.pause()

    async def _put_back(self, deliveries: list[Delivery]) -> None:
        """These were refused because their partitions move: learn where they are, and try again there."""
        self._waiting.extendleft(reversed(deliveries))
        self._arrived.set()
        await self._follow.learn()
        self._pass_on()
