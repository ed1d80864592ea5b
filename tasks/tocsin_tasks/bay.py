"""One sort of attempts of a worker: slots of their own, a lane and a heart per shard, and what is taken in.

A worker has a bay for what it calls, and one for the containers it watches: hours of containers take no slot
from calls, and an engine that is away stops the taking of its runs alone. The price is four connections per shard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from tocsin.settings import Settings
from tocsin.store.shards import Shard
from tocsin_tasks.acks import Acks
from tocsin_tasks.attempts import Attempt, Attempts
from tocsin_tasks.counters import Counters
from tocsin_tasks.events import TaskEvents
from tocsin_tasks.heartbeat import Heart
from tocsin_tasks.intake import Intake
from tocsin_tasks.lane import Lane


class Bay:
    """Made and used on the executor's loop; `queues` are those that its runs come from."""

    def __init__(
        self,
        settings: Settings,
        *,
        owner: str,
        slots: int,
        queues: Iterable[str],
        acks: Acks,
        counters: Counters,
        events: TaskEvents,
        execute: Callable[[Attempt], Awaitable[None]],
    ) -> None:
        self.attempts = Attempts(slots)
        self._shards = settings.shards
        self._lanes: dict[Shard, Lane] = {
            shard: Lane(
                shard,
                settings,
                owner=owner,
                attempts=self.attempts,
                acks=acks,
                counters=counters,
                events=events,
                execute=execute,
                lane_of=self.lane_of,
            )
            for shard in settings.shards.shards
        }
        self.lanes = list(self._lanes.values())
        self._hearts = [Heart(lane, self.attempts, settings) for lane in self.lanes]
        self._intake = Intake(self.lanes, self.attempts, acks, queues, hold=settings.message_hold)

    def lane_of(self, partition: int) -> Lane:
        """The lane of the shard that has this partition."""
        return self._lanes[self._shards.shard_of(partition)]

    def claims(self) -> list[Coroutine[Any, Any, None]]:
        """The loops that begin attempts; a drain ends them first."""
        return [*(lane.claim_forever() for lane in self.lanes), self._intake.watch_forever()]

    def others(self) -> list[Coroutine[Any, Any, None]]:
        """The loops that attempts in progress need."""
        return [
            *(lane.finisher.finish_forever() for lane in self.lanes),
            *(heart.beat_forever() for heart in self._hearts),
            *(heart.listen_forever() for heart in self._hearts),
        ]

    async def close(self) -> None:
        """Close the connections."""
        for lane in self.lanes:
            await lane.close()
