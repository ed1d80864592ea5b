"""A full worker takes no more messages, and leaves those it cannot claim to others.

A message whose run finds no free slot within `hold` seconds goes back to the broker, and no more are asked for
until a slot is free. So no message stays without an answer for as long as a run lasts (RabbitMQ closes the channel
after `consumer_timeout`, half an hour), and none waits here while another worker is idle. Each return counts as a
delivery; `hold` is long enough that the limit is hours away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from tocsin_tasks.acks import Acks
from tocsin_tasks.attempts import Attempts
from tocsin_tasks.lane import Lane

logger = logging.getLogger(__name__)


class Intake:
    """Used on the executor's loop."""

    def __init__(
        self, lanes: Sequence[Lane], attempts: Attempts, acks: Acks, queues: Iterable[str], *, hold: float
    ) -> None:
        """`queues` are those whose runs these lanes execute."""
        self._lanes, self._attempts, self._acks, self._hold = lanes, attempts, acks, hold
        self._queues = frozenset(queues)

    async def watch_forever(self) -> None:
        """Look several times within `hold`, until cancelled."""
        while True:
            await asyncio.sleep(self._hold / 4)
            self.look()

    def look(self) -> None:
        """Take messages while slots are free; stop when one has waited too long for a slot."""
        if self._attempts.free > 0:
            self._acks.take(True, self._queues)
        elif max(lane.waited for lane in self._lanes) > self._hold:
            self._acks.take(False, self._queues)  # before the messages go back
            for lane in self._lanes:
                lane.give_back(older_than=self._hold)
