"""A node: one process of the sharded beat.

Threads: one ticks the coordinator, one per shard fires, one per shard listens, one publishes, one maintains.
SIGTERM and SIGINT leave in order: nothing more is fired, what is under way is confirmed, partitions are given
up and others take them at once. A second signal ends the process where it stands; nothing is lost by it.

When it owns what the coordinator gives it and can publish, the node logs `beat ready` once.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from types import FrameType

from beatshard.amqp_publisher import AmqpPublisher
from beatshard.coordinator import CoordinationError, Coordinator
from beatshard.listener import Listener
from beatshard.maintenance import Maintenance
from beatshard.pg_coordinator import PgCoordinator
from beatshard.plain_publisher import PlainPublisher
from beatshard.publisher import Publisher
from beatshard.shard_loop import ShardLoop
from tocsin.queues import is_amqp
from tocsin.settings import Settings
from tocsin.store.shards import connect

log = logging.getLogger(__name__)


def publisher_for(settings: Settings) -> Publisher:
    """Pipelined confirms on RabbitMQ, kombu's own path on any other broker."""
    urls, spread = settings.broker_urls, settings.queue_spread
    if is_amqp(urls[0]):
        return AmqpPublisher(
            urls, window=settings.publish_window, confirm_timeout=settings.confirm_timeout, spread=spread
        )
    return PlainPublisher(urls, spread=spread)


class Node:
    """Everything one process does."""

    def __init__(
        self, settings: Settings, coordinator: Coordinator | None = None, publisher: Publisher | None = None
    ) -> None:
        first = settings.shards.shards[0]
        self.coordinator = coordinator or PgCoordinator(lambda: connect(first.url), lease=settings.node_lease)
        self.publisher = publisher or publisher_for(settings)
        self.loops = [
            ShardLoop(shard, settings, self.coordinator, self.publisher) for shard in settings.shards.shards
        ]
        maintenance = Maintenance(self.loops, settings)
        listeners = [Listener(loop.shard, loop.wake) for loop in self.loops]
        self._parts: list[ShardLoop | Listener | Maintenance] = [*self.loops, *listeners, maintenance]
        self._stopping = threading.Event()
        self._ready = False

    def run_forever(self) -> None:
        """Start, tick until `stop`, leave in order."""
        self.publisher.start()
        for part in self._parts:
            part.thread.start()
        while not self._stopping.is_set():
            self.tick()
            self._stopping.wait(self.coordinator.tick_interval if self._ready else 0.05)
        self._leave()

    def stop(self) -> None:
        """Begin to leave; `run_forever` returns when done. May be called from a signal handler."""
        self._stopping.set()

    def tick(self) -> None:
        """One round with the coordinator."""
        before = self.coordinator.held()
        try:
            self.coordinator.tick()
        except CoordinationError as error:
            log.warning("coordinator_unreachable error=%s", error)
        if self.coordinator.held() != before or self.coordinator.surplus():
            for loop in self.loops:
                loop.wake()
        if not self._ready and self._settled():
            self._ready = True
            owned = sum(loop.owned for loop in self.loops)
            log.info("beat ready node=%s partitions=%d", self.coordinator.node_id, owned)

    def _settled(self) -> bool:
        return (
            self.publisher.connected
            and bool(self.coordinator.held())
            and all(loop.settled for loop in self.loops)
        )

    def _leave(self) -> None:
        for part in self._parts:
            part.stop()
        # The membership is kept while the loops hand over: they take about a drain's time each.
        while any(loop.thread.is_alive() for loop in self.loops):
            with suppress(CoordinationError):
                self.coordinator.tick()
            for loop in self.loops:
                loop.thread.join(self.coordinator.tick_interval / len(self.loops))
        self.publisher.close()
        self.coordinator.close()
        log.info("beat stopped node=%s", self.coordinator.node_id)


def run(settings: Settings) -> int:
    """Run a node in this process until a signal; the exit code."""
    node = Node(settings)

    def on_signal(number: int, frame: FrameType | None) -> None:
        if node._stopping.is_set():
            os._exit(1)
        node.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    node.run_forever()
    return 0
