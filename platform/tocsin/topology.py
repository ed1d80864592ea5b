"""The one place that declares what lies in the broker, and says how to connect to it.

`declare` works on a connection of py-amqp or of kombu, with channels of its own: a queue that somebody has
declared with other arguments costs the channel (406), and is then used as it is, since a queue without dead
letters is better than none. Its log line says what to do.

A broker that went silent is noticed by the heartbeats within twice their interval, by the kernel when what was
written is not acknowledged for as long.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from amqp.exceptions import PreconditionFailed
from kombu.entity import Exchange, Queue

from tocsin.queues import DEAD, QUEUES, dead_arguments, is_amqp, queue_arguments

log = logging.getLogger(__name__)
HEARTBEAT = 5  # seconds between two heartbeats; after twice that without one the broker is given up
CONNECT = 4.0  # seconds for the connection and for each step of the handshake
_SILENCE = 10.0  # seconds that one read or write may take
_KEEPALIVE = {
    "TCP_USER_TIMEOUT": int(_SILENCE * 1000),  # milliseconds
    "TCP_KEEPIDLE": 5,  # seconds
    "TCP_KEEPINTVL": 2,  # seconds
    "TCP_KEEPCNT": 3,
}


def transport_options(broker_url: str) -> dict[str, Any]:
    """Timeouts and keepalives of a connection to RabbitMQ; nothing for another broker."""
    if not is_amqp(broker_url):
        return {}
    return {
        "read_timeout": _SILENCE,
        "write_timeout": _SILENCE,
        # By the system's numbers; not every system has every option.
        "socket_settings": {
            getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)
        },
    }


def queues(broker_url: str, names: Iterable[str] = tuple(QUEUES.values()), **options: Any) -> list[Queue]:
    """The queues as kombu knows them, on the default exchange; quorum queues on RabbitMQ."""
    return [
        Queue(  # type: ignore[no-untyped-call]
            name,
            Exchange(""),  # type: ignore[no-untyped-call]
            routing_key=name,
            durable=True,
            queue_arguments=queue_arguments(broker_url),
            **options,
        )
        for name in names
    ]


def declare(connection: Any, broker_url: str, names: Iterable[str]) -> None:
    """Declare these queues and what takes their dead letters. Other brokers make a queue with its first message."""
    if not is_amqp(broker_url):
        return
    channel = connection.channel()
    channel.exchange_declare(DEAD, "fanout", durable=True, auto_delete=False)
    arguments = queue_arguments(broker_url)
    for name, wanted in ((DEAD, dead_arguments()), *((name, arguments) for name in names)):
        try:
            channel.queue_declare(name, durable=True, auto_delete=False, arguments=wanted)
        except PreconditionFailed as error:
            log.error(
                "queue %s has other arguments and is used as it is: delete it when it is empty, it is made anew (%s)",
                name,
                error.reply_text,
            )
            channel = connection.channel()
    channel.queue_bind(DEAD, DEAD)
    with suppress(connection.channel_errors):
        channel.close()
