"""What the tests of publishing share: runs, a publisher on given brokers, and a look into the queues."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kombu.connection import Connection

from beatshard.amqp_publisher import AmqpPublisher
from beatshard.watermark import Batch
from tocsin.clock import now, to_micros
from tocsin.ids import new_job_id, partition_of
from tocsin.model.status import Tier
from tocsin.queues import QUEUES
from tocsin.store.partitions import QueuedRun


def some_runs(count: int, *, pool: str = "default") -> list[QueuedRun]:
    at = now()
    jobs = [new_job_id("default", f"job-{n}", at) for n in range(count)]
    return [
        QueuedRun(
            partition=partition_of(job), job_id=job, scheduled_us=to_micros(at), attempt=1, tier=Tier.DEFAULT,
            task_kind="http", job_name=f"job-{n}", pool=pool,
        )
        for n, job in enumerate(jobs)
    ]  # fmt: skip


def hand_in(publisher: AmqpPublisher, runs: list[QueuedRun]) -> threading.Event:
    """Give a batch to the publisher; the event is its confirm."""
    done = threading.Event()
    publisher.publish(Batch(runs=runs, marks={}), lambda _: done.set())
    return done


def arrived(url: str, *queues: str) -> Counter[str]:
    """Empty the queues, by default that of the tier `default`; how often each run ID was in them."""
    seen: Counter[str] = Counter()
    with Connection(url) as connection:  # type: ignore[no-untyped-call]
        channel = connection.channel()
        for queue in queues or (QUEUES[Tier.DEFAULT],):
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                seen[message.properties["correlation_id"]] += 1
    return seen


@contextmanager
def publishing(
    *urls: str, confirm_timeout: float = 10, window: int = 50, spread: int = 1
) -> Iterator[AmqpPublisher]:
    """A publisher that runs."""
    publisher = AmqpPublisher(urls, window=window, confirm_timeout=confirm_timeout, spread=spread)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.close()


class Said(logging.Handler):
    """Waits for what the publisher logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[str] = []
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self._lines.append(record.getMessage())
            self._changed.notify_all()

    def count(self, text: str) -> int:
        with self._changed:
            return sum(text in line for line in self._lines)

    def wait_for(self, text: str, *, count: int = 1, timeout: float = 60) -> str:
        """The line that made `count` of them."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._found(text)) >= count, timeout)
            found = self._found(text)
            assert len(found) >= count, (
                f"{len(found)} lines with {text!r} in {timeout} s: {self._lines[-20:]}"
            )
            return found[count - 1]

    def _found(self, text: str) -> list[str]:
        return [line for line in self._lines if text in line]


@contextmanager
def listening() -> Iterator[Said]:
    """What the publisher says from now on."""
    said, logger = Said(), logging.getLogger("beatshard")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(said)
    try:
        yield said
    finally:
        logger.removeHandler(said)
        logger.setLevel(before)
