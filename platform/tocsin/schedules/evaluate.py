"""Questions about the nominal times of a schedule. Pure: the instant is an argument, the answer exact.

All instants are aware; answers are in UTC. A naive datetime raises ValueError, because it names no instant.
`every` and `at` are answered by arithmetic; cron by a bounded search (see `cron_search`). Looking backwards
and counting are built on looking forwards, so the three can never disagree.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tocsin.clock import EPOCH, from_micros, to_micros
from tocsin.schedules.cron_search import next_second
from tocsin.schedules.model import AtSchedule, CronSchedule, EverySchedule, Schedule
from tocsin.schedules.zones import FIRST_SECOND, LAST_SECOND

_MICROSECOND = timedelta(microseconds=1)
# An instant east of UTC can lie before the first one that UTC can write; no answer does.
_FIRST_MICROS = FIRST_SECOND * 1_000_000


def next_after(schedule: Schedule, instant: datetime) -> datetime | None:
    """The first nominal time strictly after `instant` within [start, end]; None if there is none.

    Never later than year 9999. Raises ValueError for a naive `instant`.
    """
    if isinstance(schedule, CronSchedule):
        try:
            since = instant - EPOCH
        except TypeError:
            raise ValueError("a naive datetime has no instant: give it a time zone") from None
        second = _next_cron(schedule, since.days * 86400 + since.seconds + 1)
        return None if second is None else EPOCH + timedelta(seconds=second)
    micros = max(to_micros(instant), _FIRST_MICROS - 1)
    if schedule.start is not None:
        micros = max(micros, to_micros(schedule.start) - 1)
    if isinstance(schedule, EverySchedule):
        step, anchor = schedule.interval // _MICROSECOND, to_micros(schedule.anchor)
        found = anchor + ((micros - anchor) // step + 1) * step
    else:
        found = to_micros(schedule.instant)
        if found <= micros:
            return None
    return None if found > _last_micros(schedule) else from_micros(found)


def _next_cron(schedule: CronSchedule, second: int) -> int | None:
    plan = schedule.plan
    second = max(second, FIRST_SECOND)
    if plan.start is not None and second < plan.start:
        second = plan.start
    found = next_second(plan, second)
    if found is None or found > LAST_SECOND or (plan.end is not None and found > plan.end):
        return None
    return found


def _last_micros(schedule: Schedule) -> int:
    last = LAST_SECOND * 1_000_000 + 999_999
    return last if schedule.end is None else to_micros(schedule.end)


def preview(schedule: Schedule, start: datetime, count: int) -> list[datetime]:
    """The first `count` nominal times strictly after `start`; fewer if the schedule ends."""
    fires: list[datetime] = []
    while len(fires) < count:
        found = next_after(schedule, start)
        if found is None:
            break
        fires.append(found)
        start = found
    return fires


def latest_at_or_before(schedule: Schedule, instant: datetime, not_before: datetime) -> datetime | None:
    """The latest nominal time in (not_before, instant]; None if there is none.

    `every` and `at`: constant work. Cron: at most about 80 forward searches, however dense the schedule.
    """
    if isinstance(schedule, CronSchedule):
        return _latest_cron(schedule, instant, not_before)
    upper = to_micros(instant if schedule.end is None else min(instant, schedule.end))
    if isinstance(schedule, EverySchedule):
        step, anchor = schedule.interval // _MICROSECOND, to_micros(schedule.anchor)
        found = anchor + (upper - anchor) // step * step
    else:
        found = to_micros(schedule.instant)
    low = max(to_micros(not_before) + 1, _FIRST_MICROS)
    if schedule.start is not None:
        low = max(low, to_micros(schedule.start))
    return from_micros(found) if low <= found <= upper else None


def _latest_cron(schedule: CronSchedule, instant: datetime, not_before: datetime) -> datetime | None:
    upper, floor = to_micros(instant) // 1_000_000, to_micros(not_before) // 1_000_000 + 1
    if floor > upper:
        return None
    # Look back twice as far each time until something fires, then halve the stretch that nothing is known of.
    reach, best, high = 60, None, upper + 1
    while best is None and high > floor:
        low = max(upper - reach, floor)
        best = _next_cron(schedule, low)
        if best is not None and best > upper:
            best, high = None, low
        reach *= 2
    if best is None:
        return None
    while best + 1 < high:
        middle = (best + 1 + high) // 2
        found = _next_cron(schedule, middle)
        if found is None or found > upper:
            high = middle
        else:
            best = found
    return EPOCH + timedelta(seconds=best)


def count_between(schedule: Schedule, after: datetime, upto: datetime, limit: int) -> tuple[int, bool]:
    """How many nominal times lie in (after, upto], at most `limit`; True if there are more than that.

    `every` and `at`: constant work. Cron: one search per counted time, so `limit` bounds the work.
    """
    if isinstance(schedule, AtSchedule):
        total = int(latest_at_or_before(schedule, upto, after) is not None)
    elif isinstance(schedule, EverySchedule):
        first, last = next_after(schedule, after), latest_at_or_before(schedule, upto, after)
        total = 0 if first is None or last is None else (last - first) // schedule.interval + 1
    else:
        total, at = 0, next_after(schedule, after)
        while at is not None and at <= upto and total <= limit:
            total, at = total + 1, next_after(schedule, at)
    return min(total, limit), total > limit
