"""Renews the leases of all attempts in progress, and learns who asked to cancel and what is lost.

Every `heartbeat_interval` one statement per shard, on a connection of its own. A run that it does not return
is lost: its attempt is cancelled here at once. While the shard cannot be reached, an attempt is cut when its
lease has run out on the monotonic clock, counted from before the statement that granted it was sent: so this
worker stops before another one starts.

Before it the shard is asked where its partitions are; what arrived from another shard is renewed at once.

Cancel requests come with the heartbeat, that is the guarantee. NOTIFY on `tocsin_cancel` with the run ID is
the hint that makes it quick: such a run gets a heartbeat of its own at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import psycopg

from tocsin import clock
from tocsin.errors import ShardUnavailableError
from tocsin.ids import RunKey, parse_run_id
from tocsin.settings import Settings
from tocsin.store import leases, places
from tocsin.store.leases import Lease
from tocsin_tasks.attempts import Attempt, Attempts, Stop
from tocsin_tasks.following import Follower
from tocsin_tasks.lane import Lane

logger = logging.getLogger(__name__)
CANCEL_CHANNEL = "tocsin_cancel"
HINTS = 1000  # runs named by NOTIFY that wait for their heartbeat; more wait for the ordinary one
RELISTEN_SECONDS = 2.0
LOOK_SECONDS = 0.5  # how often leases are compared with the clock


class Heart:
    """The heartbeats of one worker on one shard."""

    def __init__(self, lane: Lane, attempts: Attempts, settings: Settings) -> None:
        self._lane = lane
        self._attempts = attempts
        self._follow = Follower(shard=lane.shard, shards=settings.shards, link=lane.beats)
        self._span: frozenset[int] | None = None
        self._lease = settings.run_lease
        self._interval = settings.heartbeat_interval
        self._hints: set[RunKey] = set()
        self._wake = asyncio.Event()

    async def beat_forever(self) -> None:
        """Beat until cancelled, early for the runs that NOTIFY named."""
        due = clock.monotonic() + self._interval
        await self._follow.learn()
        while True:
            with suppress(TimeoutError):
                wait = min(LOOK_SECONDS, self._interval / 4)
                await asyncio.wait_for(self._wake.wait(), wait)
            self._wake.clear()
            expire(self._attempts.all(), clock.monotonic())
            if self._partitions_changed():
                due = clock.monotonic()  # what has arrived was last renewed in another shard
            if clock.monotonic() >= due:
                due = clock.monotonic() + self._interval
                self._hints.clear()
                await self._follow.learn()
                if not await self.beat(self._mine()):
                    due = clock.monotonic()  # try again at the next look
            elif self._hints:
                hinted = [a for a in self._mine() if a.key in self._hints]
                self._hints.clear()
                await self.beat(hinted)

    async def beat(self, held: Sequence[Attempt]) -> bool:
        """Renew the leases of these attempts; False when it should be tried again soon.

        The shard could not be reached, or some of their partitions are being moved.
        """
        all_of_them = len(held)
        held = [attempt for attempt in held if not self._follow.waits(attempt.key.partition)]
        if not held:
            return all_of_them == 0
        sent = clock.monotonic()
        wanted = [attempt.claimed.lease for attempt in held]
        lease = timedelta(seconds=self._lease)
        try:
            alive, away = await self._lane.beats.run(lambda conn: _renew(conn, wanted, lease))
        except ShardUnavailableError:
            return False
        except Exception as error:
            if places.is_moved(error):
                await self._follow.learn()
                return False
            logger.exception("heartbeat failed on shard %s", self._lane.shard.name)
            return False
        for attempt in held:
            match alive.get(attempt.key):
                case None if attempt.key.partition in away:
                    continue  # another shard's heart renews it
                case None:
                    # One that is over by now was written meanwhile, or finds out by itself.
                    attempt.stop(Stop.LOST)
                case cancel:
                    attempt.lease_end = sent + self._lease
                    if cancel:
                        attempt.stop(Stop.CANCELLED)
        return len(held) == all_of_them

    async def listen_forever(self) -> None:
        """Take the hints of `tocsin_cancel` until cancelled."""
        while True:
            try:
                conn = await leases.connect(self._lane.shard.direct)
                async with conn:
                    if conn.pooled:
                        logger.warning(
                            "no cancel hints from shard %s: a pooler passes no notifications on, a cancel waits for "
                            "the next heartbeat; set TOCSIN_DIRECT_URL",
                            self._lane.shard.name,
                        )
                        await conn.close()
                        await asyncio.Event().wait()  # until cancelled: a loop that ends has failed
                    await conn.execute(f"LISTEN {CANCEL_CHANNEL}".encode())
                    async for notice in conn.notifies():
                        self._hint(notice.payload)
            except (psycopg.Error, OSError) as error:
                logger.debug("no cancel hints from shard %s: %s", self._lane.shard.name, error)
            await asyncio.sleep(RELISTEN_SECONDS)

    def _hint(self, text: str) -> None:
        key = parse_run_id(text)
        if key is not None and self._attempts.get(key) is not None and len(self._hints) < HINTS:
            self._hints.add(key)
            self._wake.set()

    def _mine(self) -> list[Attempt]:
        return [attempt for attempt in self._attempts.all() if self._follow.here(attempt.key.partition)]

    def _partitions_changed(self) -> bool:
        """Whether the shard has other partitions than at the last look."""
        before, self._span = self._span, self._follow.shards.partitions_of(self._lane.shard)
        return before is not None and before != self._span


async def _renew(
    conn: leases.Connection, held: Sequence[Lease], lease: timedelta
) -> tuple[dict[RunKey, bool], set[int]]:
    """What `leases.heartbeat` says, and the partitions of the lost ones that are elsewhere."""
    alive = await leases.heartbeat(conn, held, lease=lease)
    missing = (one.key.partition for one in held if one.key not in alive)
    return alive, await places.away_async(conn, missing)


def expire(attempts: Sequence[Attempt], now: float) -> None:
    """Cut the attempts whose lease has run out by this process's own clock."""
    for attempt in attempts:
        if now > attempt.lease_end:
            attempt.stop(Stop.LOST)
