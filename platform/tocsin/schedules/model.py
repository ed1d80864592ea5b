"""The three kinds of schedule. Equal schedules are the ones with the same canonical form.

Instants are aware and in UTC; durations are `timedelta`. `start` and `end` are both inclusive. `gap` and
`fold` say what a cron job with a fixed time does when the clock jumps; they mean nothing to the other kinds.
Build schedules with `parse`: the constructors trust their arguments, except for the cron text and the zone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Literal

from tocsin.clock import EPOCH
from tocsin.schedules.cron import CronTable, parse_cron
from tocsin.schedules.zones import Zone, zone_named

_SECOND = timedelta(seconds=1)


class Gap(StrEnum):
    """What a fixed local time does that the clock skips."""

    NEXT_VALID = "next_valid"
    SKIP = "skip"


class DayMatch(StrEnum):
    """How the two day fields of a cron expression go together."""

    CRON = "cron"  # one of them suffices when neither starts with `*`, as in crontab(5)
    ALL = "all"  # both must match, as in Celery's crontab


class Fold(StrEnum):
    """What a fixed local time does that the clock shows twice."""

    FIRST = "first"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSchedule:
    """What every kind has. `jitter` moves runs, never nominal times."""

    time_zone: str = "UTC"
    gap: Gap = Gap.NEXT_VALID
    fold: Fold = Fold.FIRST
    start: datetime | None = None
    end: datetime | None = None
    jitter: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronPlan:
    """A cron schedule prepared for the evaluator; all instants are whole seconds since the epoch.

    `once`: a repeated local time counts on its first pass only. `after_gap`: skipped times run after the gap.
    """

    table: CronTable
    zone: Zone
    once: bool
    after_gap: bool
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule(CommonSchedule):
    """A cron expression in its normal form (see `parse_cron`) on the local clock of `time_zone`."""

    kind: ClassVar[Literal["cron"]] = "cron"
    expression: str
    day_match: DayMatch = DayMatch.CRON
    plan: CronPlan = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        table = parse_cron(self.expression, self.day_match is DayMatch.ALL)
        fixed = not table.wildcard
        plan = CronPlan(
            table=table,
            zone=zone_named(self.time_zone),
            once=fixed and self.fold == Fold.FIRST,
            after_gap=fixed and self.gap == Gap.NEXT_VALID,
            start=None if self.start is None else -((EPOCH - self.start) // _SECOND),
            end=None if self.end is None else (self.end - EPOCH) // _SECOND,
        )
        object.__setattr__(self, "expression", table.text)
        object.__setattr__(self, "plan", plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class EverySchedule(CommonSchedule):
    """The instants anchor + n * interval for every whole n, negative ones too, in elapsed time."""

    kind: ClassVar[Literal["every"]] = "every"
    interval: timedelta
    anchor: datetime = EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSchedule(CommonSchedule):
    """One instant. `time_zone` is only how it is shown."""

    kind: ClassVar[Literal["at"]] = "at"
    instant: datetime


Schedule = CronSchedule | EverySchedule | AtSchedule
