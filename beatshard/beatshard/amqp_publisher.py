"""Publishing to RabbitMQ with pipelined confirms, over one connection in one thread.

Messages are written as pre-built frames, up to `window` of them without a confirm; acks and nacks come back by
delivery tag, singly or up to a number. Every message is mandatory: one without a queue comes back before its ack.

A nack and a return are answers: the broker does not have the message. It is put aside and tried again after a
pause, with its queue declared anew and on a new channel (a refusal of RabbitMQ 3.10 stays with the channel when a
limit is lifted); the others go on. Everything else is doubtful (no confirm in time, any error
of channel or connection): the connection is closed, everything without a confirm is unknown, and it is published
again on the next one, first in first out. A late confirm cannot be taken for a later message, because the tags of
a new channel begin anew.

`connection.blocked` (the broker is short of memory or disk) stops the writes, and the clock of the confirms, until
the broker takes it back; it does not read from the connection meanwhile. So a queue is declared only while nothing
is under way: a broker that has stopped reading would not answer.

Weakness: a queue that refuses for long keeps its runs in the backlog, whose limit stops the firing of all.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import Any

from kombu.connection import Connection

from beatshard import crash
from beatshard.aside import Aside
from beatshard.encode import frames, queue_of
from beatshard.publisher import Job, ThreadedPublisher, in_turn
from tocsin import topology
from tocsin.clock import monotonic
from tocsin.queues import QUEUES
from tocsin.store.partitions import QueuedRun

log = logging.getLogger(__name__)
Item = tuple[QueuedRun, Job]
_CHUNK = 200  # messages written at once
_IDLE = 0.5  # seconds to wait for a batch before looking after the connection


class Doubt(Exception):
    """The fate of some messages is unknown: close the connection and publish them again."""


class AmqpPublisher(ThreadedPublisher):
    """See the module. `urls` are tried in turn; each tier of a pool is spread over `spread` queues."""

    def __init__(self, urls: Sequence[str], *, window: int, confirm_timeout: float, spread: int = 1) -> None:
        super().__init__()
        self._urls = in_turn(urls)
        self._url = ""
        self._window = window
        self._confirm_timeout = confirm_timeout
        self._spread = spread
        self._todo: deque[Item] = deque()
        self._sent: OrderedDict[int, tuple[Item, float]] = OrderedDict()
        self._aside: Aside[Item] = Aside()
        self._returned: Counter[str] = Counter()  # by run ID; their acks are still to come
        self._declared: set[str] = set()
        self._blocked_since: float | None = None
        self._went_on = 0.0  # when the broker last took messages again
        self._tag = 0
        self._renew = False  # the channel is to be replaced as soon as nothing is under way
        self._connection: Any = None
        self._channel: Any = None

    @property
    def connected(self) -> bool:
        return self._channel is not None

    @property
    def blocked(self) -> bool:
        """Whether the broker takes no messages at present."""
        return self._blocked_since is not None

    def _connect(self) -> None:
        self._url = next(self._urls)
        options = topology.transport_options(self._url)
        options |= {"on_blocked": self._on_blocked, "on_unblocked": self._on_unblocked}
        connection = Connection(  # type: ignore[no-untyped-call]
            self._url,
            heartbeat=topology.HEARTBEAT,
            connect_timeout=topology.CONNECT,
            transport_options=options,
        )
        connection.connect()  # type: ignore[no-untyped-call]
        self._connection = connection.connection
        self._declared.clear()
        self._declare(QUEUES.values())
        self._open_channel()
        log.info("publisher_connected broker=%s", connection.as_uri())

    def _open_channel(self) -> None:
        channel = self._connection.channel()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)
        channel.confirm_select()
        self._tag, self._channel, self._renew = 0, channel, False

    def _disconnect(self) -> None:
        """Whatever had no confirm goes back to the front, in its order."""
        self._todo.extendleft(item for item, _ in reversed(self._sent.values()))
        self._sent.clear()
        self._returned.clear()
        self._blocked_since = None
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            try:
                connection.collect()
            except Exception as error:
                log.debug("closing the broker connection: %s", error)

    def _round(self) -> None:
        if again := self._aside.due(monotonic()):
            self._todo.extendleft(reversed(again))
            self._renew = True
        if self._renew and not self._sent and not self.blocked:
            self._channel.close()
            self._open_channel()
        room = self._window - len(self._sent)
        if room > 0 and not self.blocked and not self._renew:
            self._fetch(room, wait=not self._sent and not self._aside)
            self._send(room)
        self._drain()
        self._check_confirms()
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
        while chunk := self._next(min(room, _CHUNK)):
            room -= len(chunk)
            now = monotonic()
            # Remembered before the write: a write that fails half-way leaves every fate unknown.
            for item, _ in chunk:
                self._tag += 1
                self._sent[self._tag] = (item, now)
            number = self._channel.channel_id
            self._connection.transport.write(
                b"".join(frames(run, queue, number) for (run, _), queue in chunk)
            )
            crash.point("after-publish-before-confirm")

    def _next(self, most: int) -> list[tuple[Item, str]]:
        """What to write now, each with its queue: none while one has to be declared and others are under way."""
        chunk: list[tuple[Item, str]] = []
        while self._todo and len(chunk) < most:
            queue = queue_of(self._todo[0][0], self._spread)
            if queue not in self._declared:
                if chunk or self._sent:
                    break
                self._declare([queue])
            chunk.append((self._todo.popleft(), queue))
        return chunk

    def _declare(self, names: Any) -> None:
        topology.declare(self._connection, self._url, names)
        self._declared.update(names)

    def _drain(self) -> None:
        """Wait for an answer, a little; then take all that is there. Heartbeats and a close are noticed, too."""
        timeout = _IDLE if self.blocked else 0.02 if self._sent or self._aside else 0.001
        while True:
            try:
                self._connection.drain_events(timeout=timeout)
            except TimeoutError:
                return
            timeout = 0.001

    def _check_confirms(self) -> None:
        oldest = next(iter(self._sent.values()), None)
        if oldest is None or self.blocked:
            return
        if monotonic() - max(oldest[1], self._went_on) > self._confirm_timeout:
            raise Doubt(f"no confirm within {self._confirm_timeout} s")

    def _answered(self, tag: int, multiple: bool) -> list[Item]:
        """The messages that an answer is about; they are no longer under way."""
        if multiple:
            tags = []
            for sent in self._sent:
                if sent > tag:
                    break
                tags.append(sent)
        else:
            tags = [tag] if tag in self._sent else []
        return [self._sent.pop(each)[0] for each in tags]

    def _on_ack(self, tag: int, multiple: bool) -> None:
        for run, job in self._answered(tag, multiple):
            if self._returned[run.run_id] > 0:
                self._returned[run.run_id] -= 1
                self._aside.add((run, job), monotonic())
            else:
                self._settle(job)

    def _on_nack(self, tag: int, multiple: bool) -> None:
        refused = self._answered(tag, multiple)
        self.counts.refused += len(refused)
        for item in refused:
            self._aside.add(item, monotonic())

    def _on_return(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        """The message's ack comes next and says nothing; its queue is declared before it is sent again."""
        self.counts.returned += 1
        self._returned[message.properties["correlation_id"]] += 1
        if routing_key in self._declared:
            self._declared.discard(routing_key)
            log.warning("message_returned queue=%s: it is gone and is declared again", routing_key)

    def _on_blocked(self, reason: str) -> None:
        if self._blocked_since is None:
            self._blocked_since = monotonic()
            self.counts.blocked += 1
            log.warning("publisher_blocked waiting=%d", self.backlog)

    def _on_unblocked(self) -> None:
        if self._blocked_since is not None:
            self._went_on = monotonic()
            log.warning("publisher_goes_on after=%.1f s", self._went_on - self._blocked_since)
            self._blocked_since = None
