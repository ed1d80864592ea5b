"""The worker's consumer and its one bootstep.

The consumer leaves out what does not serve here: gossip and mingle (they grow with the square of the
workers) and native delayed delivery (28 quorum queues for a feature that is not used). A message whose body
or headers cannot be read is rejected, where Celery's own consumer acks it.

`ExecutorStep` starts the executor before the consumer and drains it after the consumer has stopped taking
messages, under `tocsin worker` and under `celery worker` alike. While it drains, the consumer's thread sends the
answers to the broker and keeps the connection alive; when the connection is lost meanwhile, the broker delivers
what had no answer elsewhere, and its second claim finds nothing.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from amqp import Channel as AmqpChannel
from amqp import ConsumerCancelled
from celery import bootsteps
from celery.worker.consumer import Consumer

LOOK_SECONDS = 2.0
EVENT_SECONDS = 0.5

logger = logging.getLogger(__name__)


class TocsinConsumer(Consumer):  # type: ignore[misc]
    """Celery's consumer without gossip, mingle and delayed delivery."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]
        """The steps that are left."""

        default_steps = tuple(
            step
            for step in Consumer.Blueprint.default_steps
            if not step.endswith((":Gossip", ":DelayedDelivery", ":Agent"))
        )

    def __init__(self, *args: Any, worker_options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        options = {**(worker_options or {}), "without_mingle": True, "without_gossip": True}
        super().__init__(*args, worker_options=options, **kwargs)

    def connect(self) -> Any:
        """Connect, and declare what is consumed before anybody consumes it."""
        connection = super().connect()
        try:
            self.app.declare(connection)
        except BaseException:
            connection.collect()
            raise
        return connection

    def register_with_event_loop(self, hub: Any) -> None:
        """Look now and then whether the broker still delivers from every queue."""
        super().register_with_event_loop(hub)
        hub.call_repeatedly(LOOK_SECONDS, self.check_consumers)
        hub.call_repeatedly(EVENT_SECONDS, self.send_events)

    def send_events(self) -> None:
        """Tell Flower and its like what the executor has begun and ended."""
        executor = self.app.executor
        if executor is not None:
            executor.events.send(self.event_dispatcher)

    def check_consumers(self) -> None:
        """Raises ConsumerCancelled, which makes Celery connect anew, when the broker has cancelled a consumer.

        It does so when a queue is deleted, and says it once; Celery does not hear it while it starts its loop.
        """
        channel = getattr(self.task_consumer, "channel", None)
        if not isinstance(channel, AmqpChannel):
            return
        for tag in self.task_consumer._active_tags.values():
            if tag not in channel.callbacks:
                raise ConsumerCancelled(tag, (60, 30))

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Reject what cannot be decoded; it may go to a dead-letter exchange."""
        self.app.counters.rejected += 1
        logger.error("message rejected: it cannot be decoded (%s)", type(exc).__name__)
        message.reject_log_error(logger, self.connection_errors)

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Reject what is no Celery message."""
        self.app.counters.rejected += 1
        logger.error("message rejected: it is no task message")
        message.reject_log_error(logger, self.connection_errors)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Reject a task that this worker does not know."""
        self.app.counters.rejected += 1
        logger.error("message rejected: unknown task %.100r", message.headers.get("task"))
        message.reject_log_error(logger, self.connection_errors)


class ExecutorStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Runs the executor as long as the worker."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        """Start before the consumer does."""
        worker.app.start_executor(tuple(worker.app.amqp.queues.consume_from))

    def stop(self, worker: Any) -> None:
        """Drain; the answers to the broker go out as they come."""
        worker.app.stop_executor(lambda: self._meanwhile(worker))

    terminate = stop

    @staticmethod
    def _meanwhile(worker: Any) -> None:
        worker.app.acks.flush()
        connection = worker.consumer.connection
        if connection is None or not connection.supports_heartbeats:
            return
        with suppress(*connection.connection_errors, *connection.channel_errors, TimeoutError):
            connection.heartbeat_check()
            connection.drain_events(timeout=0.001)
