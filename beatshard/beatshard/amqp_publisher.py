"""Publishing to RabbitMQ with pipelined confirms, over one connection in one thread.

Messages are written as pre-built frames, up to `window` of them without a confirm; acks and nacks come back by
delivery tag, singly or up to a number. Every message is mandatory. When anything is doubtful (a nack, a returned
message, no confirm in time, any error of channel or connection) the connection is closed, everything without a
confirm is unknown, and it is published again on the next one, first in first out. A late confirm cannot be
taken for a later message, because the tags of a new channel begin anew.

The broker's back-pressure is TCP's: a blocked connection stops the write, and the write times out.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from itertools import cycle
from typing import Any

from kombu.connection import Connection

from beatshard import crash, topology
from beatshard.encode import frames
from beatshard.publisher import Job, ThreadedPublisher
from tocsin.clock import monotonic
from tocsin.store.partitions import QueuedRun

log = logging.getLogger(__name__)
Item = tuple[QueuedRun, Job]
_CHUNK = 200  # messages written at once
_IDLE = 0.5  # seconds to wait for a batch before looking after the connection


class Doubt(Exception):
    """The fate of some messages is unknown: close the connection and publish them again."""


class AmqpPublisher(ThreadedPublisher):
    """See the module. `urls` are tried in turn."""

    def __init__(self, urls: list[str], *, window: int, confirm_timeout: float) -> None:
        super().__init__()
        self._urls = cycle(urls)
        self._window = window
        self._confirm_timeout = confirm_timeout
        self._todo: deque[Item] = deque()
        self._sent: OrderedDict[int, tuple[Item, float]] = OrderedDict()
        self._tag = 0
        self._doubt: str | None = None
        self._connection: Any = None
        self._channel: Any = None

    @property
    def connected(self) -> bool:
        return self._channel is not None

    def _connect(self) -> None:
        url = next(self._urls)
        connection = Connection(  # type: ignore[no-untyped-call]
            url, heartbeat=10, connect_timeout=5, transport_options={"read_timeout": 30, "write_timeout": 30}
        )
        connection.ensure_connection(max_retries=1)  # type: ignore[no-untyped-call]
        self._connection = connection.connection
        channel = self._connection.channel()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)
        topology.declare_amqp(channel, url)
        channel.confirm_select()
        self._tag, self._doubt, self._channel = 0, None, channel
        log.info("publisher_connected broker=%s", connection.as_uri())

    def _disconnect(self) -> None:
        """Whatever had no confirm goes back to the front, in its order."""
        self._todo.extendleft(item for item, _ in reversed(self._sent.values()))
        self._sent.clear()
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            try:
                connection.collect()
            except Exception as error:
                log.debug("closing the broker connection: %s", error)

    def _round(self) -> None:
        room = self._window - len(self._sent)
        if room > 0:
            self._fetch(room, wait=not self._sent)
            self._send(room)
        if self._sent:
            self._drain()
            oldest = next(iter(self._sent.values()), None)
            if oldest is not None and monotonic() - oldest[1] > self._confirm_timeout:
                raise Doubt(f"no confirm within {self._confirm_timeout} s")
        else:
            self._drain_idle()
        self._connection.heartbeat_tick()

    def _fetch(self, room: int, *, wait: bool) -> None:
        timeout = _IDLE if wait and not self._todo else 0.0
        while len(self._todo) < room:
            job = self._backlog.get(timeout)
            if job is None:
                return
            self._todo.extend((run, job) for run in job[0].runs)
            timeout = 0.0

    def _send(self, room: int) -> None:
        while self._todo and room > 0:
            chunk = [self._todo.popleft() for _ in range(min(room, _CHUNK, len(self._todo)))]
            room -= len(chunk)
            now = monotonic()
            # Remembered before the write: a write that fails half-way leaves every fate unknown.
            for item in chunk:
                self._tag += 1
                self._sent[self._tag] = (item, now)
            channel_id = self._channel.channel_id
            self._connection.transport.write(b"".join(frames(run, channel_id) for run, _ in chunk))
            crash.point("after-publish-before-confirm")

    def _drain(self) -> None:
        """Wait for an answer, a little; then take all that is there."""
        timeout = 0.02
        while self._sent:
            try:
                self._connection.drain_events(timeout=timeout)
            except TimeoutError:
                return
            if self._doubt is not None:
                raise Doubt(self._doubt)
            timeout = 0.001

    def _drain_idle(self) -> None:
        """Heartbeats and a close by the broker are noticed while nothing is under way."""
        try:
            self._connection.drain_events(timeout=0.001)
        except TimeoutError:
            return

    def _on_ack(self, tag: int, multiple: bool) -> None:
        if not multiple:
            tags = [tag] if tag in self._sent else []
        else:
            tags = []
            for sent in self._sent:
                if sent > tag:
                    break
                tags.append(sent)
        for each in tags:
            (_, job), _ = self._sent.pop(each)
            self._backlog.settle(job)

    def _on_nack(self, tag: int, multiple: bool, requeue: bool = False) -> None:
        self._doubt = "the broker refused a message"

    def _on_return(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        # Its ack would count as delivered; on the next connection the queue is declared again.
        self._doubt = f"a message came back: no queue {routing_key!r}"
        raise Doubt(self._doubt)
