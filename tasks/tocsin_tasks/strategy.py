"""From a Celery message to a delivery: the `Task.Strategy` hook, which bypasses Celery's request and pool.

A message says which attempt of which run to look at: args `[run_id, attempt]`. It is read with the standard
JSON parser, because kombu's turns dictionaries of a certain shape into objects. A message that cannot be read
is rejected without requeue, logged and counted; its run, if there is one, is published again by the sweep.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tocsin import clock
from tocsin.callback_token import lease_token, new_secret
from tocsin.ids import RunKey, parse_run_id
from tocsin.queues import TASK_PREFIX
from tocsin_tasks.acks import Verdict

logger = logging.getLogger(__name__)

BODY_BYTES = 65_536  # a tocsin message has about a hundred
ATTEMPTS = 1_000_000  # an attempt number beyond this is no attempt number


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that names an attempt. Its token becomes the lease's when the claim is won."""

    message: Any
    key: RunKey
    attempt: int
    kind: str = ""  # of the task
    secret: bytes = field(default_factory=new_secret)
    arrived: float = field(default_factory=clock.monotonic)

    @property
    def token(self) -> UUID:
        return lease_token(self.secret)


def strategy(task: Any, app: Any, consumer: Any, **_: Any) -> Callable[..., None]:
    """Made by Celery for each registered task on every connection; what it returns gets each message."""
    acks, submit, counters = app.acks, app.submit, app.counters
    acks.attach(consumer)
    kind = task.name.removeprefix(TASK_PREFIX)

    def receive(message: Any, payload: Any, *_: Any) -> None:
        delivery = read(message, kind)
        if delivery is None:
            counters.rejected += 1
            logger.error("message rejected: its body does not name a run and an attempt")
            acks.settle(message, Verdict.REJECT)
        else:
            submit(delivery)

    return receive


def read(message: Any, kind: str = "") -> Delivery | None:
    """The delivery in a message, or None when it names no run and attempt."""
    body = message.body
    if message.content_type != "application/json" or len(body) > BODY_BYTES:
        return None
    try:
        match json.loads(body):
            case [[str(text), int(attempt)], *_] if 1 <= attempt <= ATTEMPTS and not isinstance(
                attempt, bool
            ):
                key = parse_run_id(text)
            case _:
                return None
    except (ValueError, RecursionError):
        return None
    return Delivery(message=message, key=key, attempt=attempt, kind=kind) if key else None
