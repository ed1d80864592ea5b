"""Answers to the broker, sent from the consumer's thread only.

Protocol: any thread calls `settle`; the consumer's thread sends the answers in `flush`, which the event loop
calls soon. Each message is answered by itself: kombu's loop keeps its callbacks in a set without order, and
an "ack up to here" that overtakes an older one closes the channel. Delivery tags belong to a channel, so
after a reconnect the answers to messages of the old channel are dropped: the broker delivers those again.

`take` says whether the worker wants messages of some of its queues. The consumer follows before it sends the
answers, so that a message that goes back because this worker is full is not delivered to it again.

Limit: no more answers wait than messages were delivered, which the prefetch count bounds.
"""

from __future__ import annotations

import logging
from collections import deque
from enum import Enum
from typing import Any

logger = logging.getLogger(__name__)


class Verdict(Enum):
    """What the broker is told of a message."""

    ACK = "ack"
    REJECT = "reject"  # it goes to the dead-letter exchange, if the queue has one
    REQUEUE = "requeue"  # it is delivered again, here or elsewhere


class Acks:
    """The answers that wait to be sent on the current channel."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, Verdict]] = deque()
        self._scheduled = False
        self._consumer: Any = None
        self._channel: Any = None
        self._unwanted: frozenset[str] = frozenset()  # queues from which no message should come
        self._set_aside: dict[str, Any] = {}  # those that the consumer has cancelled, by name
        self.dropped = 0  # answers to messages of a channel that is gone

    def attach(self, consumer: Any) -> None:
        """A new connection is up: its channel is the only one that is answered on from now."""
        self._consumer = consumer
        self._channel = consumer.connection.default_channel
        # A flush that the old event loop was to make may be lost with it.
        self._scheduled = False
        self._send_all()
        self._set_aside = {}  # it consumes all as soon as the event loop starts
        self._schedule()

    def settle(self, message: Any, verdict: Verdict) -> None:
        """Answer a message; callable from any thread."""
        self._waiting.append((message, verdict))
        self._schedule()

    def take(self, wanted: bool, queues: frozenset[str]) -> None:
        """Ask the broker for messages of these queues, or for no more; called from one thread."""
        unwanted = self._unwanted - queues if wanted else self._unwanted | queues
        if unwanted != self._unwanted:
            self._unwanted = unwanted
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._consumer is not None:
            self._scheduled = True
            self._consumer.call_soon(self.flush)

    def flush(self) -> None:
        """Follow the last `take` and send what waits. Consumer's thread only."""
        self._scheduled = False  # first: what is settled from now on schedules the next flush
        unwanted = self._unwanted
        if unwanted != self._set_aside.keys():
            self._follow(self._consumer.task_consumer, unwanted)
        self._send_all()

    def _follow(self, consumer: Any, unwanted: frozenset[str]) -> None:
        for queue in list(consumer.queues):
            if queue.name in unwanted:
                consumer.cancel_by_queue(queue.name)
                self._set_aside[queue.name] = queue
        wanted = self._set_aside.keys() - unwanted
        for name in wanted:
            consumer.add_queue(self._set_aside.pop(name))
        if wanted:
            consumer.consume()

    def _send_all(self) -> None:
        while self._waiting:
            message, verdict = self._waiting.popleft()
            if message.channel is not self._channel:
                self.dropped += 1
                continue
            try:
                _send(message, verdict)
            except Exception as error:
                # The connection is going down; reading from it will fail too and start the reconnect.
                self.dropped += 1
                logger.debug("answer to a message not sent: %r", error)


def _send(message: Any, verdict: Verdict) -> None:
    match verdict:
        case Verdict.ACK:
            message.ack()
        case Verdict.REJECT:
            message.reject(requeue=False)
        case Verdict.REQUEUE:
            message.reject(requeue=True)
