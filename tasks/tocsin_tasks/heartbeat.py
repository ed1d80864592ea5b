"""Renews the leases of all attempts in progress, and learns who asked to cancel and what is lost.

Every `heartbeat_interval` one statement per shard, on a connection of its own. A run that it does not return
is lost: its attempt is cancelled here at once. While the shard cannot be reached, an attempt is cut when its
lease has run out on the monotonic clock, counted from before the statement that granted it was sent: so this
worker stops before another one starts.

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
from tocsin.store import leases
from tocsin_tasks.attempts import Attempt, Attempts, Stop
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
        self._shards = settings.shards
        self._lease = settings.run_lease
        self._interval = settings.heartbeat_interval
        self._hints: set[RunKey] = set()
        self._wake = asyncio.Event()

    async def beat_forever(self) -> None:
        """Beat until cancelled, early for the runs that NOTIFY named."""
        due = clock.monotonic() + self._interval
        while True:
            with suppress(TimeoutError):
                wait = min(LOOK_SECONDS, self._interval / 4)
                await asyncio.wait_for(self._wake.wait(), wait)
            self._wake.clear()
            expire(self._attempts.all(), clock.monotonic())
            if clock.monotonic() >= due:
                due = clock.monotonic() + self._interval
                self._hints.clear()
                if not await self.beat(self._mine()):
                    due = clock.monotonic()  # try again at the next look
            elif self._hints:
                hinted = [a for a in self._mine() if a.key in self._hints]
                self._hints.clear()
                await self.beat(hinted)

    async def beat(self, held: Sequence[Attempt]) -> bool:
        """Renew the leases of these attempts; False when the shard could not be reached."""
        if not held:
            return True
        sent = clock.monotonic()
        wanted = [attempt.claimed.lease for attempt in held]
        lease = timedelta(seconds=self._lease)
        try:
            alive = await self._lane.beats.run(lambda conn: leases.heartbeat(conn, wanted, lease=lease))
        except ShardUnavailableError:
            return False
        except Exception:
            logger.exception("heartbeat failed on shard %s", self._lane.shard.name)
            return False
        for attempt in held:
            match alive.get(attempt.key):
                case None:
                    # One that is over by now was written meanwhile, or finds out by itself.
                    attempt.stop(Stop.LOST)
                case cancel:
                    attempt.lease_end = sent + self._lease
                    if cancel:
                        attempt.stop(Stop.CANCELLED)
        return True

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
        span = self._shards.partitions_of(self._lane.shard)
        return [attempt for attempt in self._attempts.all() if attempt.key.partition in span]


def expire(attempts: Sequence[Attempt], now: float) -> None:
    """Cut the attempts whose lease has run out by this process's own clock."""
    for attempt in attempts:
        if now > attempt.lease_end:
            attempt.stop(Stop.LOST)
