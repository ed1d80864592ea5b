"""One asyncio loop in a thread of its own: claims, executes and finishes what the consumer hands over.

`submit` is called by the consumer's thread; answers to the broker go back through `Acks`. `stop` drains:
nothing new is claimed, attempts get `drain_timeout` to end, and those that do not are given up at once with
the reason `lease_expired`, as if the worker had died, only sooner: their retry is due immediately. Containers
are handed over as soon as the drain begins: the same attempt resumes at another worker.

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
from tocsin.queues import own_kind, parse_queue
from tocsin.settings import Settings
from tocsin.store import leases
from tocsin_tasks.acks import Acks, Verdict
from tocsin_tasks.attempts import Stop
from tocsin_tasks.bay import Bay
from tocsin_tasks.containers.engine import Engine
from tocsin_tasks.containers.shop import Shop
from tocsin_tasks.counters import Counters
from tocsin_tasks.events import TaskEvents
from tocsin_tasks.execute import Execution
from tocsin_tasks.link import Link
from tocsin_tasks.strategy import Delivery

logger = logging.getLogger(__name__)
CLOSE_SECONDS = 15.0  # for writing the last results, once the attempts have ended


class Executor:
    """The thread and all that lives on its loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        worker_id: str,
        acks: Acks,
        counters: Counters,
        queues: Sequence[str],
        engine: Engine | None = None,
    ) -> None:
        """`queues` are those that the worker consumes; with an engine, runs of containers are among theirs."""
        self.worker_id = worker_id
        self._queues, self._engine = tuple(queues), engine
        served = {parse_queue(name)[0] for name in queues}
        self._tiers = [tier for tier in Tier if tier in served]
        self.events = TaskEvents()
        self._settings, self._acks, self._counters = settings, acks, counters
        self._thread = threading.Thread(target=self._main, name="tocsin-executor", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._arrived: deque[Delivery] = deque()
        self._woken = False
        self._bays: list[Bay] = []
        self._containers: Bay | None = None
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
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

    def hurry(self) -> None:
        """Give the attempts no more time to end; for a signal handler."""
        self._loop.call_soon_threadsafe(self._hurried.set)

    def _distribute(self) -> None:
        self._woken = False  # first: what arrives from now on wakes the loop again
        while self._arrived:
            delivery = self._arrived.popleft()
            if self._stopping.is_set():
                self._acks.settle(delivery.message, Verdict.REQUEUE)
            else:
                contained = self._containers is not None and delivery.kind == "docker"
                bay = self._containers if contained and self._containers else self._bays[0]
                bay.lane_of(delivery.key.partition).add(delivery)

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
        shop = Shop(self._settings, self._engine) if self._engine is not None else None
        execution = Execution(self._settings, shop.runner if shop else None)
        main = self._bay(execution, self._settings.worker_slots, "")
        self._bays = [main]
        if shop is not None:
            self._containers = self._bay(execution, self._settings.docker_slots, "docker")
            self._bays.append(self._containers)
            shop.serve(self._containers.attempts)
        claims = _all(loop for bay in self._bays for loop in bay.claims())
        others = _all(
            [
                *(loop for bay in self._bays for loop in bay.others()),
                *(shop.loops() if shop is not None else ()),
                self._register_forever(),
            ]
        )
        self._ready.set_result(None)
        stopping = asyncio.create_task(self._stopping.wait())
        ended, _ = await asyncio.wait({stopping, *claims, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in ended - {stopping}:
            task.result()  # a loop that ends has failed: raise what it raised
        await self._drain(claims)
        await _cancel(others)
        await execution.close()
        for bay in self._bays:
            await bay.close()
        if shop is not None:
            shop.close()

    def _bay(self, execution: Execution, slots: int, kind: str) -> Bay:
        return Bay(
            self._settings,
            owner=self.worker_id,
            slots=slots,
            queues=[name for name in self._queues if own_kind(name) == kind],
            acks=self._acks,
            counters=self._counters,
            events=self.events,
            execute=execution.execute,
        )

    def _running(self) -> int:
        return sum(len(bay.attempts) for bay in self._bays)

    async def _all_ended(self) -> None:
        for bay in self._bays:
            await bay.attempts.wait_empty()

    async def _drain(self, claims: list[asyncio.Task[None]]) -> None:
        await _cancel(claims)
        for bay in self._bays:
            for lane in bay.lanes:
                await lane.settle_claim(CLOSE_SECONDS)
                lane.give_back()
        if self._containers is not None:
            _stop(self._containers)  # they are handed over, however long they would run
        logger.info("draining %d runs, for %g s at most", self._running(), self._settings.drain_timeout)
        if not await _within(self._settings.drain_timeout, _first(self._all_ended(), self._hurried.wait())):
            self._hurried.set()
        if self._hurried.is_set() and self._running():
            logger.warning("%d runs given up: another worker goes on", self._running())
            for bay in self._bays:
                _stop(bay)
            if not await _within(CLOSE_SECONDS, self._all_ended()):
                logger.error("%d results could not be written; their leases expire", self._running())

    async def _register_forever(self) -> None:
        """Tell the first shard that this worker is there. Nothing depends on it but what people see."""
        shard = self._settings.shards.shards[0]
        link = Link(shard.dsn, shard.name)
        interval = self._settings.heartbeat_interval
        try:
            while True:
                await _quietly(link, lambda conn: self._register(conn, timedelta(seconds=3 * interval)))
                await asyncio.sleep(interval)
        finally:
            await _quietly(link, lambda conn: leases.unregister(conn, self.worker_id))
            await link.close()

    async def _register(self, conn: leases.Connection, lease: timedelta) -> None:
        await leases.register(
            conn,
            self.worker_id,
            tiers=[tier.value for tier in self._tiers],
            slots=sum(bay.attempts.slots for bay in self._bays),
            running=self._running(),
            lease=lease,
        )


def _stop(bay: Bay) -> None:
    for attempt in bay.attempts.all():
        attempt.stop(Stop.DRAIN)


def _all(coroutines: Any) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(coroutine) for coroutine in coroutines]


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _first(*work: Coroutine[Any, Any, Any]) -> None:
    tasks = _all(work)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(tasks)


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
