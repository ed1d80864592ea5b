"""When a job acts next: the pure part of creating and editing jobs.

A new job with a `start` in the past begins there, so that its catch-up policy decides what becomes of the past;
an `at` in the past is taken within the catch-up window only, because an older one is a slip of the pen. Whatever
an edit changes, the past is never fired again: a new schedule begins after now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tocsin import schedules
from tocsin.clock import EPOCH
from tocsin.errors import InvalidError, Problem
from tocsin.model.job import CatchUpPolicy, JobDocument
from tocsin.model.status import Overlap
from tocsin.schedules.values import duration_text

_MICROSECOND = timedelta(microseconds=1)
HINT = timedelta(seconds=6)  # nodes look 5 s ahead on their own; a trigger nearer than this is announced


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The content of a schedule trigger."""

    nominal: datetime
    fire_at: datetime


def due_at(job_id: UUID, schedule: schedules.Schedule, nominal: datetime) -> Due:
    """The trigger of this nominal time: it acts after the job's stable jitter."""
    return Due(nominal=nominal, fire_at=nominal + schedules.jitter_for(job_id, nominal, schedule.jitter))


def first_due(job_id: UUID, doc: JobDocument, now: datetime) -> Due | None:
    """The first trigger of a new job; None when it is paused or runs by hand only.

    Raises InvalidError as `first_nominal` does.
    """
    nominal = first_nominal(doc, now)
    if doc.schedule is None or nominal is None or doc.paused:
        return None
    return due_at(job_id, doc.schedule, nominal)


def first_nominal(doc: JobDocument, now: datetime) -> datetime | None:
    """The first nominal time of a new job; None when it runs by hand only.

    Raises InvalidError for a schedule that can never fire, because nobody means that.
    """
    if doc.schedule is None:
        return None
    if isinstance(doc.schedule, schedules.AtSchedule):
        _refuse_long_past(doc.schedule.instant, doc.catch_up, now)
    begin = doc.schedule.instant if isinstance(doc.schedule, schedules.AtSchedule) else doc.schedule.start
    # next_after itself never answers before `start`; before 1970 no run has an ID.
    since = EPOCH - _MICROSECOND if begin is not None and begin <= now else now
    nominal = schedules.next_after(doc.schedule, since)
    if nominal is None:
        raise never_fires(doc.schedule, now)
    return nominal


def _refuse_long_past(instant: datetime, policy: CatchUpPolicy, now: datetime) -> None:
    window = timedelta(seconds=policy.window_sec)
    if now - instant <= window:
        return
    raise InvalidError(
        [
            Problem(
                pointer="#/schedule/at",
                code="schedule_never_fires",
                detail=f"{instant:%Y-%m-%dT%H:%M:%SZ} is past, by more than catchUp.window ({duration_text(window)})",
                fix="write an instant to come, or leave out the schedule and start a run by hand",
            )
        ]
    )


def next_due(job_id: UUID, doc: JobDocument, now: datetime) -> Due | None:
    """The trigger of an edited or resumed job: the first nominal time after now."""
    if doc.schedule is None or doc.paused:
        return None
    nominal = schedules.next_after(doc.schedule, now)
    return None if nominal is None else due_at(job_id, doc.schedule, nominal)


def same_times(old: JobDocument, new: JobDocument) -> bool:
    """Whether both make the same nominal times from here on, so that a pending one must not be lost."""
    if old.schedule is None or new.schedule is None or old.paused or new.paused:
        return False
    return schedules.spec_key(old.schedule) == schedules.spec_key(new.schedule)


def is_limited(doc: JobDocument) -> bool:
    """Whether the runs of this job lock the job row."""
    return doc.concurrency.overlap is not Overlap.ALLOW


def never_fires(schedule: schedules.Schedule, now: datetime) -> InvalidError:
    """The refusal of a schedule without any nominal time from now on."""
    at = isinstance(schedule, schedules.AtSchedule)
    ended = schedule.end is not None and schedule.end <= now
    field = "at" if at else "end" if ended else ""
    fix = "write a later instant, or leave out the schedule and start runs by hand"
    return InvalidError(
        [
            Problem(
                pointer=f"#/schedule/{field}".rstrip("/"),
                code="schedule_never_fires",
                detail="the schedule never fires from now on",
                fix=fix if at or ended else "write a schedule that has a time to come",
            )
        ]
    )
