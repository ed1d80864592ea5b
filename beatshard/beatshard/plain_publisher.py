"""Publishing through kombu, for brokers without confirms of their own (the embedded Redis-compatible one).

The transport's own answer to the write is the confirm. Slower than the AMQP path, and good for one machine.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from kombu.connection import Connection
from kombu.messaging import Producer

from beatshard import crash
from beatshard.encode import body, headers, queue_of, reply_to
from beatshard.publisher import Job, ThreadedPublisher, in_turn
from tocsin import topology
from tocsin.store.partitions import QueuedRun

log = logging.getLogger(__name__)
_IDLE = 0.5  # seconds


class PlainPublisher(ThreadedPublisher):
    """One connection, one thread, one message after the other."""

    def __init__(self, urls: Sequence[str], *, spread: int = 1) -> None:
        super().__init__()
        self._urls = in_turn(urls)
        self._spread = spread
        self._todo: deque[tuple[QueuedRun, Job]] = deque()
        self._connection: Any = None
        self._producer: Any = None

    @property
    def connected(self) -> bool:
        return self._producer is not None

    def _connect(self) -> None:
        url = next(self._urls)
        self._connection = Connection(url, connect_timeout=topology.CONNECT)  # type: ignore[no-untyped-call]
        self._connection.connect()
        self._producer = Producer(self._connection.default_channel)  # type: ignore[no-untyped-call]
        log.info("publisher_connected broker=%s", self._connection.as_uri())

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.release()
            except Exception as error:
                log.debug("closing the broker connection: %s", error)

    def _round(self) -> None:
        if not self._todo:
            job = self._backlog.get(_IDLE)
            if job is None:
                return
            self._todo.extend((run, job) for run in job[0].runs)
        while self._todo and not self._stopping.is_set():
            run, job = self._todo[0]
            table = headers(run)
            self._producer.publish(
                body(run),
                routing_key=queue_of(run, self._spread),
                headers=table,
                kwargsrepr=table["kwargsrepr"],  # Celery passes it on as a property, too
                correlation_id=run.run_id,
                reply_to=reply_to(),
                serializer="json",
                delivery_mode=2,
                priority=0,
            )
            crash.point("after-publish-before-confirm")
            self._todo.popleft()
            self._settle(job)
