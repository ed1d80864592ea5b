"""Schedules: what is written, when it fires, and how that is said. Pure; no I/O but reading zone files.

    schedule = parse({"cron": "30 2 * * 1-5", "timeZone": "Europe/Berlin"})
    next_after(schedule, instant)      # the first nominal time strictly after an aware instant, or None

`parse` refuses with ScheduleError (code, field, detail, fix). The rules of the dialect, of clock changes and
of jitter are in docs/schedules.md; the reasons for an evaluator of our own in docs/decisions.
"""

from __future__ import annotations

from tocsin.errors import ScheduleError
from tocsin.schedules.canonical import canonical, spec_key
from tocsin.schedules.describe import describe
from tocsin.schedules.evaluate import count_between, latest_at_or_before, next_after, preview
from tocsin.schedules.jitter import jitter_for
from tocsin.schedules.model import AtSchedule, CronSchedule, DayMatch, EverySchedule, Fold, Gap, Schedule
from tocsin.schedules.parse import parse

__all__ = [
    "AtSchedule",
    "CronSchedule",
    "DayMatch",
    "EverySchedule",
    "Fold",
    "Gap",
    "Schedule",
    "ScheduleError",
    "canonical",
    "count_between",
    "describe",
    "jitter_for",
    "latest_at_or_before",
    "next_after",
    "parse",
    "preview",
    "spec_key",
]
