"""An entry of Celery's `beat_schedule` as a job document; pure but for reading the entry.

What Celery does is kept: a crontab's fields are AND-ed, day of month and day of week too; its times are of the app's
time zone; an interval runs from when the entry is first seen, not from a round instant. A clock change is handled
as for every job (docs/schedules.md). What cannot be kept is refused, with what to do instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from celery import schedules
from kombu.entity import Exchange, Queue

from tocsin.errors import TocsinError

SOURCE = "beat"
_FIELDS = (
    ("minute", "_orig_minute", range(60)),
    ("hour", "_orig_hour", range(24)),
    ("day_of_month", "_orig_day_of_month", range(1, 32)),
    ("month_of_year", "_orig_month_of_year", range(1, 13)),
    ("day_of_week", "_orig_day_of_week", range(7)),
)
_STAR = re.compile(r"\*(/\d+)?")
# Options that the message carries. `ignore_result` and the like have no meaning for the sender.
_OPTIONS = {"queue", "exchange", "routing_key", "priority", "expires", "headers"}


class EntryError(TocsinError):
    """An entry that cannot be brought in: which, why, and what to do."""

    code = "beat_entry"

    def __init__(self, name: str, detail: str, fix: str) -> None:
        super().__init__(f"beat_schedule[{name!r}]: {detail}; {fix}")


def job_name(entry: str) -> str:
    """The name of an entry's job: its own where it can be one, with a mark of the rest where it cannot."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", entry).strip("-._")[:100] or "entry"
    if words != entry:
        words += "-" + hashlib.blake2b(entry.encode(), digest_size=4).hexdigest()
    return f"beat.{words}"


def document(name: str, entry: Mapping[str, Any], *, app: str, zone: str, now: datetime) -> dict[str, Any]:
    """The job document of one entry. Raises EntryError."""
    task = entry.get("task")
    if not isinstance(task, str):
        raise EntryError(name, "it names no task", "give `task` the task's name")
    return {
        "name": job_name(name),
        "description": f"beat_schedule[{name!r}] of the Celery app {app}"[:2000],
        "labels": {"source": SOURCE, "app": app},
        "schedule": _schedule(name, entry.get("schedule"), zone, now),
        "task": {
            "celery": {"name": task, **_arguments(name, entry), **_options(name, entry.get("options") or {})}
        },
        # As celery beat does after an outage: what is overdue runs once.
        "catchUp": {"mode": "latest", "windowSec": 60},
        "retryPolicy": {"maxAttempts": 20, "initialSec": 1, "factor": 2, "maxSec": 60},
        "timeoutSec": 30,
    }


def _arguments(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    args, kwargs = entry.get("args") or (), entry.get("kwargs") or {}
    if not isinstance(args, (list, tuple)) or not isinstance(kwargs, Mapping):
        raise EntryError(name, "args or kwargs are of a wrong type", "give a list and a mapping")
    return {"args": list(args), "kwargs": dict(kwargs)}


def _options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(options.keys() - _OPTIONS):
        known = ", ".join(sorted(_OPTIONS))
        raise EntryError(
            name, f"options {', '.join(unknown)} cannot be kept", f"remove them; kept are {known}"
        )
    kept: dict[str, Any] = {
        key: options[key] for key in ("priority", "headers") if options.get(key) is not None
    }
    queue, exchange = options.get("queue"), options.get("exchange")
    kept |= {"queue": queue.name if isinstance(queue, Queue) else queue} if queue else {}
    kept |= {"exchange": exchange.name if isinstance(exchange, Exchange) else exchange} if exchange else {}
    kept |= {"routingKey": options["routing_key"]} if options.get("routing_key") else {}
    expires = options.get("expires")
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if expires is not None:
        if not isinstance(expires, (int, float)):
            raise EntryError(name, "`expires` is an instant", "give seconds from the sending")
        kept["expiresSec"] = expires
    return kept


def _schedule(name: str, value: Any, zone: str, now: datetime) -> dict[str, Any]:
    if isinstance(value, (int, float)):
        value = timedelta(seconds=value)
    if type(value) is schedules.schedule:
        value = value.run_every
    if isinstance(value, timedelta):
        return _every(name, value, now)
    if type(value) is schedules.crontab:
        return _crontab(name, value, zone)
    kind = type(value).__name__
    if isinstance(value, schedules.solar):
        raise EntryError(
            name, "solar schedules are not known", "write the times as a crontab, or keep it in celery beat"
        )
    raise EntryError(
        name, f"a schedule of the type {kind} is not known", "give seconds, a timedelta or a crontab"
    )


def _every(name: str, value: timedelta, now: datetime) -> dict[str, Any]:
    if value < timedelta(seconds=1):
        raise EntryError(name, f"it runs every {value.total_seconds():g} s", "run it every second at most")
    anchor = now.replace(microsecond=0).isoformat()
    return {"everySec": value.total_seconds(), "anchor": anchor}


def _crontab(name: str, value: schedules.crontab, zone: str) -> dict[str, Any]:
    if value.nowfun is not None:
        raise EntryError(
            name, "its crontab has a clock of its own (nowfun)", "set the app's `timezone` instead"
        )
    words = [
        _field(getattr(value, field), getattr(value, original), full) for field, original, full in _FIELDS
    ]
    return {"cron": " ".join(words), "timeZone": zone, "dayMatch": "all"}


def _field(values: Collection[int], original: Any, full: range) -> str:
    """The values as cron has them; a star is kept, for it says how a clock change is met."""
    if set(values) == set(full):
        return "*"
    if isinstance(original, str) and _STAR.fullmatch(original):
        step = int(original.partition("/")[2] or 1)
        if {number for number in full if (number - full.start) % step == 0} == set(values):
            return original
    return ",".join(map(str, sorted(values)))
