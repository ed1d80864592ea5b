"""A node: one process of the sharded beat.

Threads: one ticks the coordinator, one per shard fires, one per shard listens, one publishes, one maintains.
SIGTERM and SIGINT leave in order: nothing more is fired, what is under way is confirmed, partitions are given
up and others take them at once. A second signal ends the process where it stands; nothing is lost by it.

A shard that cannot be reached stops its own loop only. The exception is the first one when the coordinator is the
Postgres one, whose tables are in it: without it no node knows what it holds, and all stop until it is back.

When it can publish, and owns what the coordinator gives it in the shards that answer, the node logs `beat ready`
once.
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
from beatshard.zk_coordinator import ZkCoordinator
from tocsin.coordination import parse_auth
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


def coordinator_for(settings: Settings) -> Coordinator:
    """ZooKeeper when the settings name an ensemble, else leases in the first shard."""
    if settings.zookeeper is not None:
        return ZkCoordinator(
            settings.zookeeper,
            lease=settings.node_lease,
            zone=settings.zone,
            auth=parse_auth(settings.zookeeper_auth),
        )
    url = settings.shards.shards[0].url
    return PgCoordinator(lambda: connect(url), lease=settings.node_lease, zone=settings.zone)


_TELL_EVERY = 30  # ticks without a coordinator between two lines about it


class Node:
    """Everything one process does."""

    def __init__(
        self, settings: Settings, coordinator: Coordinator | None = None, publisher: Publisher | None = None
    ) -> None:
        self._setting = "TOCSIN_COORDINATOR" if settings.zookeeper else "TOCSIN_DATABASE_URL"
        self.coordinator = coordinator or coordinator_for(settings)
        self.publisher = publisher or publisher_for(settings)
        self.loops = [
            ShardLoop(shard, settings, self.coordinator, self.publisher) for shard in settings.shards.shards
        ]
        settings.shards.watch(self._wake_all)
        maintenance = Maintenance(self.loops, settings)
        listeners = [Listener(loop.shard, loop.wake) for loop in self.loops]
        self._parts: list[ShardLoop | Listener | Maintenance] = [*self.loops, *listeners, maintenance]
        self._stopping = threading.Event()
        self._ready = False
        self._failures = 0  # ticks in a row that found no coordinator

    def run_forever(self) -> None:
        """Start, tick until `stop`, leave in order."""
        self.publisher.start()
        for part in self._parts:
            part.thread.start()
        while not self._stopping.is_set():
            self.tick()
            hurry = not self._ready and self._failures == 0
            self.coordinator.changes.wait(0.05 if hurry else self.coordinator.tick_interval)
            self.coordinator.changes.clear()
        self._leave()

    def stop(self) -> None:
        """Begin to leave; `run_forever` returns when done. May be called from a signal handler."""
        self._stopping.set()
        self.coordinator.changes.set()

    def tick(self) -> None:
        """One round with the coordinator."""
        before = self.coordinator.held()
        try:
            self.coordinator.tick()
            self._failures = 0
        except CoordinationError as error:
            if self._failures % _TELL_EVERY == 0:
                words = " ".join(str(error).split())
                log.warning("coordinator_unreachable setting=%s error=%s", self._setting, words)
            self._failures += 1
        if self.coordinator.held() != before or self.coordinator.surplus():
            self._wake_all()
        if not self._ready and self._settled():
            self._ready = True
            owned = sum(loop.owned for loop in self.loops)
            log.info("beat ready node=%s partitions=%d", self.coordinator.node_id, owned)
            for loop in self.loops:
                if loop.down:
                    log.warning("beat goes on without shard=%s until it can be reached", loop.shard.name)

    def _wake_all(self) -> None:
        for loop in self.loops:
            loop.wake()

    def _settled(self) -> bool:
        return (
            self.publisher.connected
            and bool(self.coordinator.held())
            and all(loop.settled or loop.down for loop in self.loops)
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
        self.coordinator.close()  # first: the others wait for what was released
        self.publisher.close()
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
