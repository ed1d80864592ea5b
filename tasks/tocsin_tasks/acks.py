"""Answers to the broker, sent from the consumer's thread only.

Protocol: any thread calls `settle`; the consumer's thread sends the answers in `flush`, which the event loop
calls soon. Each message is answered by itself: kombu's loop keeps its callbacks in a set without order, and
an "ack up to here" that overtakes an older one closes the channel. Delivery tags belong to a channel, so
after a reconnect the answers to messages of the old channel are dropped: the broker delivers those again.

`take` says whether the worker wants messages at all. The consumer follows before it sends the answers, so that a
message that goes back because this worker is full is not delivered to it again.

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
        self._wanted = True  # whether messages should come
        self._consumes = True  # whether the consumer has asked for them
        self.dropped = 0  # answers to messages of a channel that is gone

    def attach(self, consumer: Any) -> None:
        """A new connection is up: its channel is the only one that is answered on from now."""
        self._consumer = consumer
        self._channel = consumer.connection.default_channel
        # A flush that the old event loop was to make may be lost with it.
        self._scheduled = False
        self._send_all()
        self._consumes = True  # as soon as the event loop starts
        self._schedule()

    def settle(self, message: Any, verdict: Verdict) -> None:
        """Answer a message; callable from any thread."""
        self._waiting.append((message, verdict))
        self._schedule()

    def take(self, wanted: bool) -> None:
        """Ask the broker for messages, or for no more; callable from any thread."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._consumer is not None:
            self._scheduled = True
            self._consumer.call_soon(self.flush)

    def flush(self) -> None:
        """Follow the last `take` and send what waits. Consumer's thread only."""
        self._scheduled = False  # first: what is settled from now on schedules the next flush
        wanted = self._wanted
        if wanted != self._consumes:
            consumer = self._consumer.task_consumer
            consumer.consume() if wanted else consumer.cancel()
            self._consumes = wanted
        self._send_all()

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
