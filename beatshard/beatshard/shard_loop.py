"""One thread per shard: take and leave partitions, look ahead, fire, reap, remember what is confirmed.

`run_once` is one bounded round. The order in it matters: partitions that are no longer held are dropped
before anything is fired. All of a shard's runs become queued in this one thread, so the order of `fired_at` is
the order in which batches are registered, which is what the watermark relies on.

An error of Postgres leaves open whether the last transaction was committed. The loop then forgets every
partition and takes them anew: the epoch rises, and what was committed lies beyond the watermark.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

from beatshard import crash
from beatshard.agenda import Agenda
from beatshard.coordinator import Coordinator
from beatshard.handover import HandOver
from beatshard.ownership import Ownership
from beatshard.publisher import Publisher
from tocsin.clock import monotonic
from tocsin.settings import Settings
from tocsin.store import firing, places, reaping
from tocsin.store.plans import PlanCache
from tocsin.store.shards import Shard, connect

log = logging.getLogger(__name__)
_PER_PARTITION = 1000  # triggers of one partition fired in one transaction at most
_BETWEEN_LOOKS = 0.05  # seconds at least between two looks ahead, however many hints come
_ROUND = 0.5  # seconds of firing before the coordinator is asked again
_HAIR = 0.002  # seconds between two looks at what the database's clock found not due yet
_WATERMARKS = 1.0  # seconds between two writes of watermarks
_MAX_PAUSE = 5.0  # seconds between two attempts to reach the database
_SWEEP = 30.0  # seconds between two looks for what is stuck
_PLACES = 2.0  # seconds between two looks at which partitions the shard has
# Keys are looked up, whatever the estimates say. A node that stops inside a transaction holds locks that a takeover
# waits for: the server ends it when it sends no statement, or takes no answer, for this long.
_SESSION = {
    "enable_seqscan": "off",
    "idle_in_transaction_session_timeout": "3s",
    "tcp_user_timeout": "3s",
}


@dataclass(slots=True, kw_only=True)
class Did:
    """What one round did."""

    fired: int = 0
    reaped: int = 0
    looked: bool = False


class ShardLoop:
    """See the module; `stop` and `wake` may be called from any thread."""

    def __init__(
        self, shard: Shard, settings: Settings, coordinator: Coordinator, publisher: Publisher
    ) -> None:
        self.shard = shard
        self._settings = settings
        self._out = HandOver(shard.name, publisher)
        self._plans = PlanCache(retention=timedelta(days=settings.retention_days))
        self._ownership = Ownership(shard, settings.shards, coordinator, self._out)
        self._agenda = Agenda(settings.recovery_rate)
        self._conn: psycopg.Connection[Any] | None = None
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._offset = 0.0  # database's epoch seconds minus this node's monotonic seconds
        self._next: dict[str, float] = {"look": 0.0, "reap": 0.0, "mark": 0.0, "places": 0.0}
        self._down = False
        self._swept_at = self._looked_at = float("-inf")
        self.thread = threading.Thread(target=self._run, name=f"shard-{shard.name}", daemon=True)

    @property
    def owned(self) -> int:  # partitions that this loop fires
        return len(self._ownership.owned)

    @property
    def owns_first(self) -> bool:
        """Whether the shard's maintenance is this node's."""
        return min(self._ownership.range, default=-1) in self._ownership.owned

    @property
    def down(self) -> bool:
        """Whether the database could not be reached at the last try."""
        return self._down

    @property
    def settled(self) -> bool:
        """Whether it owns all that the coordinator gives it."""
        return self._ownership.settled

    def wake(self) -> None:
        """Look ahead now: something may be due sooner than the last look has seen."""
        self._next["look"] = min(self._next["look"], self._looked_at + _BETWEEN_LOOKS)
        self._wake.set()

    def stop(self) -> None:
        """Leave everything in order and end; join `thread`."""
        self._stopping.set()
        self._wake.set()

    def _run(self) -> None:
        pause = 0.2
        while not self._stopping.is_set():
            try:
                self.run_once(monotonic())
                pause, self._down = 0.2, False
            except Exception as error:
                # A fault of our own is treated like the database's: a thread that dies would keep its partitions.
                unreachable = self._down = isinstance(error, psycopg.OperationalError)
                log.warning(
                    "shard_failed shard=%s error=%s", self.shard.name, error, exc_info=not unreachable
                )
                self._forget()
                self._stopping.wait(pause)
                pause = min(pause * 2, _MAX_PAUSE)
                continue
            self._sleep()
        try:
            if self._conn is not None:
                self._ownership.leave_all(self._conn)
        except psycopg.Error as error:
            log.warning("shard_left_untidy shard=%s error=%s", self.shard.name, str(error).strip())
        self._forget()

    def _forget(self) -> None:
        self._ownership.forget()
        self._agenda.own([], monotonic())
        self._agenda.replace([], monotonic())
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _sleep(self) -> None:
        now = monotonic()
        due = self._agenda.wake_at(now)
        wait = min(self._next.values()) - now
        if due is not None and not self._out.full:
            wait = min(wait, due - now)
        if wait > 0:
            self._wake.wait(wait)
        self._wake.clear()

    def run_once(self, now: float) -> Did:
        """One bounded round at `now` (monotonic seconds)."""
        did = Did()
        if self._conn is None:
            self._conn = connect(self.shard.url, session=_SESSION)
            self._next["places"] = 0.0
        if self._due("places", now, _PLACES):
            places.learn(self._conn, self._settings.shards, self.shard)
        if self._ownership.follow(self._conn):
            self._next["look"] = 0.0
        if self._due("look", now, self._settings.poll_interval):
            self._look_ahead(self._conn)
            did.looked = True
        did.fired = self._fire(self._conn)
        if self._due("reap", now, self._settings.reap_interval) and self._ownership.owned:
            did.reaped = self._reap(self._conn)
        if self._due("mark", now, _WATERMARKS):
            self._ownership.drop(self._out.write_marks(self._conn, self._ownership.owned))
        return did

    def _due(self, what: str, now: float, interval: float) -> bool:
        due = now >= self._next[what]
        self._next[what] = now + interval if due else self._next[what]
        return due

    def _look_ahead(self, conn: psycopg.Connection[Any]) -> None:
        owned = list(self._ownership.owned)
        self._agenda.own(owned, monotonic())
        if not owned:
            self._agenda.replace([], monotonic())
            return
        before = self._looked_at = monotonic()
        look = firing.look_ahead(conn, self._plans, owned, self._settings.look_ahead, _PER_PARTITION)
        if look.now is not None:
            self._offset = look.now.timestamp() - (before + monotonic()) / 2
        off = self._offset
        self._agenda.replace(
            ((d.fire_at.timestamp() - off, d.partition, d.count) for d in look.due), monotonic()
        )

    def _fire(self, conn: psycopg.Connection[Any]) -> int:
        """Fire what is due, a batch a transaction, until nothing is, the publisher is full or the round is over."""
        fired, end = 0, monotonic() + _ROUND
        while not self._out.full and not self._stopping.is_set() and monotonic() <= end:
            pick = self._agenda.pick(monotonic(), self._settings.fire_batch, _PER_PARTITION)
            if pick is None:
                break
            epochs = self._ownership.owned
            owned = {p: epochs[p] for p in pick.due if p in epochs}
            if not owned:
                continue
            crash.point("before-firing")
            done = firing.fire(conn, self._plans, owned, limit=pick.limit, horizon=self._settings.look_ahead)
            if pick.late:
                self._agenda.spend(done.due)
            self._after(done, owned)
            self._put_back(done, pick.due)
            fired += len(done.runs)
        return fired

    def _put_back(self, done: firing.Fired, taken: dict[int, float]) -> None:
        """This clock was a hair before the database's: what was not due yet stays in the wheel."""
        if done.fired_at is None:
            return
        fired_at = done.fired_at.timestamp() - self._offset
        for partition, due in taken.items():
            if due > fired_at:
                self._agenda.add(due + _HAIR, partition, monotonic())

    def _after(self, done: firing.Fired, owned: dict[int, int]) -> None:
        if done.fenced:
            log.warning("partitions_fenced shard=%s count=%d", self.shard.name, len(done.fenced))
            self._ownership.drop(done.fenced)
        self._out.send_runs(done.runs, done.fired_at, owned)
        if done.stale or done.skipped or done.gaps:
            log.info("triggers_dropped stale=%d skipped=%d gaps=%d", done.stale, done.skipped, done.gaps)
        for due in done.next_due:
            at = due.fire_at.timestamp() - self._offset
            self._agenda.add(at, due.partition, monotonic(), due.count)
        if done.gaps or done.due >= _PER_PARTITION:
            self._next["look"] = 0.0  # there may be more, or a next nominal time that is due as well

    def _reap(self, conn: psycopg.Connection[Any]) -> int:
        owned = dict(self._ownership.owned)
        results = [reaping.reap(conn, owned)]
        if monotonic() - self._swept_at > _SWEEP:
            self._swept_at = monotonic()
            swept = reaping.sweep(conn, owned, older_than=self._settings.republish_after)
            if len(swept.runs) >= reaping.PAGE:
                self._swept_at = float("-inf")  # there is more: a broker may have lost a whole queue
            results.append(swept)
        for done in results:
            self._ownership.drop(done.fenced)
            self._out.send_runs(done.runs, done.fired_at, owned)
            if done.released:
                self._next["look"] = 0.0
            if done.runs or done.failed or done.cancelled:
                log.info("runs_reaped sent=%d failed=%d", len(done.runs), done.failed)
        return sum(len(done.runs) for done in results)
