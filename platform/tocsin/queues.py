"""What node and worker agree on about the broker: the queues, their arguments, the names of the tasks.

Pure data, so that neither side imports the other. The arguments of a queue must be equal wherever it is
declared: RabbitMQ answers a different declaration with 406 and closes the channel.
"""

from __future__ import annotations

from tocsin.model.status import Tier

# Each tier has a queue of its own; the default exchange routes by the queue's name.
QUEUES: dict[Tier, str] = {tier: f"tocsin.{tier.value}" for tier in Tier}

# `tocsin.run.http` runs a job of kind `http`.
TASK_PREFIX = "tocsin.run."

_AMQP_SCHEMES = ("amqp", "amqps", "pyamqp")


def is_amqp(broker_url: str) -> bool:
    """Whether the broker speaks AMQP 0-9-1, which gives quorum queues and publisher confirms."""
    return broker_url.split("://", 1)[0] in _AMQP_SCHEMES


def queue_arguments(broker_url: str) -> dict[str, str]:
    """The arguments with which every tier's queue is declared on this broker."""
    return {"x-queue-type": "quorum"} if is_amqp(broker_url) else {}


def task_name(task_kind: str) -> str:
    """The Celery task that runs a job of this kind."""
    return TASK_PREFIX + task_kind
