"""What is known after a seed: what was asked of the API, what the witness saw, what tocsin says, which faults there were.

All instants are epoch seconds; nominal times are whole microseconds, as in run IDs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from schedules.oracle import fires, fires_every

PARTITIONS = 1024
DROPPING = ("latest", "none")  # kinds of jobs whose catch-up may drop nominal times
STOPPED: dict[str, Any] = {}  # the schedule of a job that is paused or deleted


def micros(at: datetime) -> int:
    """Whole microseconds since 1970."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def instant(seconds: float) -> datetime:
    """An aware instant."""
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(slots=True)
class Change:
    """A call that set a job's schedule. It took effect at one instant within [start, end]."""

    what: str  # create, edit, pause, resume, delete
    schedule: dict[str, Any]  # STOPPED for none
    start: float
    end: float = float("inf")  # stays infinite while nobody knows whether it happened


@dataclass(slots=True)
class Job:
    """One job of the workload."""

    name: str
    kind: str  # plain, flaky, skip, queue, burst, once, latest, none
    job_id: str = ""  # hex, from the acknowledged answer
    failures: int = 0  # answers 500 that each run gets first
    seconds: float = 0.0  # how long the target takes
    changes: list[Change] = field(default_factory=list)
    manual: list[str] = field(default_factory=list)  # run IDs of acknowledged manual runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request that the witness logged."""

    at: float
    job_id: str
    nominal: int
    attempt: int

    @property
    def run(self) -> tuple[str, int]:
        return self.job_id, self.nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A row of `runs`."""

    job_id: str
    nominal: int
    status: str
    reason: str | None
    origin: str
    attempt: int
    fired_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A row of `gaps`: nominal times that were dropped, and told."""

    job_id: str
    first: int
    last: int
    recorded: float = 0.0  # when, by the database's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, from its begin to the end of the mending."""

    kind: str
    target: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A row of `attempts`: how an attempt that was not the last word ended, and the worker that held it."""

    reason: str
    worker: str = ""  # the member's name; empty when nobody knows


@dataclass(slots=True, kw_only=True)
class History:
    """All of one seed."""

    jobs: list[Job]
    arrivals: list[Arrival]
    runs: list[Run]
    gaps: list[Gap]
    faults: list[Fault]
    attempts: dict[tuple[str, int, int], Ended]  # (job, nominal, attempt)
    shards: int = 1  # databases, each with an equal range of the partitions
    overdue: int = 0  # triggers that were due and had not fired when all was quiet
    usurped: list[str] = field(default_factory=list)  # runs made by a node that did not own their partition
    ended: float = 0.0


def nominals(schedule: dict[str, Any], after: float, until: float) -> Iterator[int]:
    """The nominal times of a schedule in (after, until], by the slow oracle."""
    if not schedule or after >= until:
        return
    start, end = instant(after), instant(until)
    if "every" in schedule:
        step = timedelta(seconds=int(schedule["every"].removesuffix("s")))
        found = fires_every(step, datetime.fromisoformat(schedule["anchor"]), start, end)
    elif "at" in schedule:
        at = datetime.fromisoformat(schedule["at"])
        found = [at] if start < at <= end else []
    else:
        found = fires(schedule["cron"], schedule.get("timeZone", "UTC"), start, end)
    yield from (micros(at) for at in found)
