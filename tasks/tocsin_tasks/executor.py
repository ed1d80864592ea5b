"""One asyncio loop in a thread of its own: claims, executes and finishes what the consumer hands over.

`submit` is called by the consumer's thread; answers to the broker go back through `Acks`. `stop` drains:
nothing new is claimed, attempts get `drain_timeout` to end, and those that do not are given up at once with
the reason `lease_expired`, as if the worker had died, only sooner: their retry is due immediately.

Weakness: all attempts share this loop, so code that blocks it stops the heartbeats too; the leases then run
out, which is the right end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from tocsin.errors import ShardUnavailableError
from tocsin.model.status import Tier
from tocsin.settings import Settings
from tocsin.store import leases
from tocsin.store.shards import Shard
from tocsin_tasks.acks import Acks, Verdict
from tocsin_tasks.attempts import Attempts, Stop
from tocsin_tasks.counters import Counters
from tocsin_tasks.execute import Execution
from tocsin_tasks.heartbeat import Heart
from tocsin_tasks.intake import Intake
from tocsin_tasks.lane import Lane
from tocsin_tasks.link import Link
from tocsin_tasks.strategy import Delivery

logger = logging.getLogger(__name__)
CLOSE_SECONDS = 15.0  # for writing the last results, once the attempts have ended


class Executor:
    """The thread and all that lives on its loop."""

    def __init__(
        self, settings: Settings, *, worker_id: str, acks: Acks, counters: Counters, tiers: Sequence[Tier]
    ) -> None:
        self.worker_id = worker_id
        self._settings, self._acks, self._counters, self._tiers = settings, acks, counters, tuple(tiers)
        self._thread = threading.Thread(target=self._main, name="tocsin-executor", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._arrived: deque[Delivery] = deque()
        self._woken = False
        self._lanes: dict[Shard, Lane] = {}
        self._stopping = asyncio.Event()
        self._ready: Future[None] = Future()

    def start(self) -> None:
        """Start the thread; returns when it can take deliveries."""
        self._thread.start()
        self._ready.result()

    def submit(self, delivery: Delivery) -> None:
        """Take a message over. Consumer's thread."""
        self._counters.received += 1
        self._arrived.append(delivery)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._distribute)

    def stop(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Drain and end; returns when the thread has ended. `meanwhile` is called some times a second."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            while self._thread.is_alive():
                self._thread.join(0.1)
                meanwhile()

    def _distribute(self) -> None:
        self._woken = False  # first: what arrives from now on wakes the loop again
        while self._arrived:
            delivery = self._arrived.popleft()
            if self._stopping.is_set():
                self._acks.settle(delivery.message, Verdict.REQUEUE)
            else:
                self._lane_of(delivery.key.partition).add(delivery)

    def _lane_of(self, partition: int) -> Lane:
        return self._lanes[self._settings.shards.shard_of(partition)]

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            logger.critical("the executor failed; this process ends", exc_info=error)
            os._exit(70)  # nothing runs without it: the leases expire and the supervisor starts anew
        finally:
            self._loop.close()

    async def _run(self) -> None:
        attempts = Attempts(self._settings.worker_slots)
        execution = Execution(self._settings)
        for shard in self._settings.shards.shards:
            self._lanes[shard] = Lane(
                shard,
                self._settings,
                owner=self.worker_id,
                attempts=attempts,
                acks=self._acks,
                counters=self._counters,
                execute=execution.execute,
                lane_of=self._lane_of,
            )
        lanes = list(self._lanes.values())
        hearts = [Heart(lane, attempts, self._settings) for lane in lanes]
        intake = Intake(lanes, attempts, self._acks, hold=self._settings.message_hold)
        claims = _all([*(lane.claim_forever() for lane in lanes), intake.watch_forever()])
        others = _all(
            [
                *(lane.finisher.finish_forever() for lane in lanes),
                *(heart.beat_forever() for heart in hearts),
                *(heart.listen_forever() for heart in hearts),
                self._register_forever(attempts),
            ]
        )
        self._ready.set_result(None)
        stopping = asyncio.create_task(self._stopping.wait())
        ended, _ = await asyncio.wait({stopping, *claims, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in ended - {stopping}:
            task.result()  # a loop that ends has failed: raise what it raised
        await self._drain(attempts, claims)
        await _cancel(others)
        await execution.close()
        for lane in lanes:
            await lane.close()

    async def _drain(self, attempts: Attempts, claims: list[asyncio.Task[None]]) -> None:
        await _cancel(claims)
        for lane in self._lanes.values():
            await lane.settle_claim(CLOSE_SECONDS)
            lane.give_back()
        logger.info("draining %d runs, for %g s at most", len(attempts), self._settings.drain_timeout)
        if not await _within(self._settings.drain_timeout, attempts.wait_empty()):
            logger.warning("%d runs given up: another worker goes on", len(attempts))
            for attempt in attempts.all():
                attempt.stop(Stop.DRAIN)
            if not await _within(CLOSE_SECONDS, attempts.wait_empty()):
                logger.error("%d results could not be written; their leases expire", len(attempts))

    async def _register_forever(self, attempts: Attempts) -> None:
        """Tell the first shard that this worker is there. Nothing depends on it but what people see."""
        shard = self._settings.shards.shards[0]
        link = Link(shard.dsn, shard.name)
        interval = self._settings.heartbeat_interval
        try:
            while True:
                await _quietly(
                    link, lambda conn: self._register(conn, attempts, timedelta(seconds=3 * interval))
                )
                await asyncio.sleep(interval)
        finally:
            await _quietly(link, lambda conn: leases.unregister(conn, self.worker_id))
            await link.close()

    async def _register(self, conn: leases.Connection, attempts: Attempts, lease: timedelta) -> None:
        await leases.register(
            conn,
            self.worker_id,
            tiers=[tier.value for tier in self._tiers],
            slots=attempts.slots,
            running=len(attempts),
            lease=lease,
        )


def _all(coroutines: Any) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(coroutine) for coroutine in coroutines]


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> bool:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True


async def _quietly(link: Link, statement: Any) -> None:
    try:
        await link.run(statement)
    except ShardUnavailableError:
        logger.debug("the worker's own row was not written")
