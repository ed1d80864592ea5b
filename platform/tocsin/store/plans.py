"""Plans: for a distinct (spec, nominal time), what firing it does, computed once for all jobs that share it.

Most plans are made seconds ahead of their instant, so that at the instant only the transaction is left.
A plan made while its nominal time was on time is remade when it is used later than its window: by then the
catch-up policy has a say. The cache is bounded; a plan that was pushed out is made again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import psycopg
from pydantic import ValidationError

from tocsin import schedules
from tocsin.errors import TocsinError
from tocsin.model.job import CatchUpPolicy
from tocsin.model.policy import CatchUpDecision, decide_catch_up
from tocsin.store import days

log = logging.getLogger(__name__)
Key = tuple[int, datetime]  # (spec_id, nominal time)

# Index: specs_pkey. Cost: one probe a spec, only the first time a process meets it.
LOAD_SPECS = "SELECT spec_id, spec FROM specs WHERE spec_id = ANY(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A schedule and its catch-up policy."""

    schedule: schedules.Schedule
    catch_up: CatchUpPolicy


def parse_spec(raw: dict[str, Any]) -> Spec:
    """The spec in a row of `specs`."""
    return Spec(
        schedule=schedules.parse(raw["schedule"]), catch_up=CatchUpPolicy.model_validate(raw["catchUp"])
    )


class PlanCache:
    """Specs and plans of one shard, bounded by `limit` entries each."""

    def __init__(self, *, retention: timedelta = timedelta(days=30), limit: int = 100_000) -> None:
        self._retention = retention
        self._limit = limit
        self._specs: OrderedDict[int, Spec] = OrderedDict()
        self._plans: OrderedDict[Key, CatchUpDecision] = OrderedDict()
        self._days: set[date] = set()
        self._expected: set[Key] = set()

    def prepare(
        self, conn: psycopg.Connection[Any], keys: Iterable[Key], now: datetime
    ) -> dict[Key, CatchUpDecision]:
        """The plans of these keys at `now`; loads specs that are new here. Unknown specs are left out."""
        wanted = set(keys)
        self._load(conn, {spec_id for spec_id, _ in wanted})
        made = {key: plan for key in wanted if (plan := self._plan(key, now)) is not None}
        self._make_days(conn, made.values())
        return made

    def expect_only(self, keys: set[Key]) -> None:
        """Replace what the next calls of `fire` will find due by what a look ahead has seen."""
        self._expected = keys

    def expect(self, keys: set[Key]) -> None:
        """Add to what the next calls of `fire` will find due."""
        self._expected |= keys

    def expected_by(self, now: datetime) -> list[Key]:
        """The expected keys whose nominal time has come."""
        return [key for key in self._expected if key[1] <= now]

    def _load(self, conn: psycopg.Connection[Any], spec_ids: set[int]) -> None:
        missing = [spec_id for spec_id in spec_ids if spec_id not in self._specs]
        if not missing:
            return
        for spec_id, raw in conn.execute(LOAD_SPECS, (missing,)):
            try:
                self._specs[spec_id] = parse_spec(raw)
            except (TocsinError, ValidationError, KeyError, TypeError) as error:
                # Its triggers stay due and are not fired; the jobs of other specs go on.
                log.error("spec_unreadable spec=%d error=%s", spec_id, error)
        while len(self._specs) > self._limit:
            self._specs.popitem(last=False)

    def _plan(self, key: Key, now: datetime) -> CatchUpDecision | None:
        spec = self._specs.get(key[0])
        if spec is None:
            return None
        late = now - key[1] > timedelta(seconds=spec.catch_up.window_sec)
        plan = None if late else self._plans.get(key)
        if plan is None:
            plan = decide_catch_up(spec.schedule, spec.catch_up, key[1], now, self._retention)
            if not late:
                self._plans[key] = plan
                if len(self._plans) > self._limit:
                    self._plans.popitem(last=False)
        return plan

    def _make_days(self, conn: psycopg.Connection[Any], plans: Iterable[CatchUpDecision]) -> None:
        """Make the day partitions that these runs need and that maintenance has not made ahead of time."""
        new = {days.day_of(plan.fire) for plan in plans if plan.fire is not None} - self._days
        if not new:
            return
        with conn.transaction():
            for day in sorted(new):
                (exists,) = conn.execute("SELECT to_regclass(%s)", (f"runs_{day:%Y%m%d}",)).fetchone() or (
                    None,
                )
                if exists is None:
                    conn.execute(days.LOCK_SQL)
                    for statement in days.create_statements(day):
                        conn.execute(statement.encode())
        self._days |= new
