"""The one place that declares what lies in the broker: a durable queue per tier."""

from __future__ import annotations

from typing import Any

from kombu.entity import Exchange, Queue

from tocsin.queues import QUEUES, queue_arguments


def queues(broker_url: str) -> list[Queue]:
    """The queues as kombu declares them; quorum queues on RabbitMQ."""
    arguments = queue_arguments(broker_url)
    return [
        Queue(  # type: ignore[no-untyped-call]
            name,
            Exchange(""),  # type: ignore[no-untyped-call]
            routing_key=name,
            durable=True,
            queue_arguments=dict(arguments),
        )
        for name in QUEUES.values()
    ]


def declare_amqp(channel: Any, broker_url: str) -> None:
    """Declare every queue on a py-amqp channel; a different declaration of the same name raises (406)."""
    for name in QUEUES.values():
        channel.queue_declare(name, durable=True, auto_delete=False, arguments=queue_arguments(broker_url))
