"""A full worker stops asking for messages before it gives any back, and asks again when a slot is free."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from tasks.test_acks import Consumer
from tocsin.clock import monotonic
from tocsin.ids import RunKey
from tocsin.settings import Settings
from tocsin_tasks.acks import Acks
from tocsin_tasks.attempts import Attempts
from tocsin_tasks.counters import Counters
from tocsin_tasks.intake import Intake
from tocsin_tasks.lane import Lane
from tocsin_tasks.strategy import Delivery

HOLD = 5.0


class Scene:
    """A worker of two slots with one shard and a recorded consumer; used on a loop."""

    def __init__(self) -> None:
        self.consumer = Consumer()
        record = self.consumer.sent
        here, there = SimpleNamespace(name="here"), SimpleNamespace(name="there")
        self.consumer.task_consumer = SimpleNamespace(  # type: ignore[attr-defined]
            queues=[here, there],
            cancel_by_queue=lambda name: record.append((0, f"cancel {name}")),
            add_queue=lambda queue: record.append((0, f"add {queue.name}")),
            consume=lambda: record.append((0, "consume")),
        )
        self.acks, self.attempts = Acks(), Attempts(2)
        self.acks.attach(self.consumer)
        settings = Settings(database_url="postgresql://nowhere/")
        self.lane: Lane = Lane(
            settings.shards.shards[0], settings, owner="w", attempts=self.attempts, acks=self.acks,
            counters=Counters(), execute=self._never, lane_of=lambda _: self.lane,
        )  # fmt: skip
        self.intake = Intake([self.lane], self.attempts, self.acks, ["here"], hold=HOLD)

    async def _never(self, _: Any) -> None:
        raise AssertionError("nothing is claimed here")

    def arrive(self, tag: int, *, ago: float) -> None:
        self.lane.add(
            Delivery(
                message=self.consumer.message(tag),
                key=RunKey(uuid4(), 1),
                attempt=1,
                arrived=monotonic() - ago,
            )
        )

    def look(self) -> list[tuple[int, str]]:
        """What one look makes the consumer do."""
        self.consumer.sent.clear()
        self.intake.look()
        self.consumer.turn()
        return list(self.consumer.sent)


def test_a_full_worker_stops_asking_gives_back_what_is_old_and_asks_again_when_a_slot_is_free() -> None:
    async def scene() -> None:
        s = Scene()
        await s.attempts.reserve(2)
        s.arrive(1, ago=HOLD + 1)
        s.arrive(2, ago=HOLD + 1)
        s.arrive(3, ago=0)
        assert s.look() == [(0, "cancel here"), (1, "requeue"), (2, "requeue")]
        assert s.look() == [], "it is told once"
        s.attempts.release(1)
        assert s.look() == [(0, "add here"), (0, "consume")]
        assert s.look() == []

    asyncio.run(scene())


def test_while_a_slot_is_free_nothing_is_given_back() -> None:
    async def scene() -> None:
        s = Scene()
        await s.attempts.reserve(1)
        s.arrive(1, ago=HOLD + 1)
        assert s.look() == []

    asyncio.run(scene())


def test_a_new_connection_of_a_full_worker_does_not_ask_either() -> None:
    async def scene() -> None:
        s = Scene()
        await s.attempts.reserve(2)
        s.arrive(1, ago=HOLD + 1)
        s.look()
        s.acks.attach(s.consumer)
        s.consumer.sent.clear()
        s.consumer.turn()
        assert s.consumer.sent == [(0, "cancel here")], "Celery begins with consuming"

    asyncio.run(scene())
