"""Entries of `beat_schedule` as jobs: Celery's rules kept, real files, and what is refused."""

from __future__ import annotations

import random
import runpy
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import ImproperlyConfigured
from celery.schedules import crontab, schedule

from beatshard.entries import EntryError, document, job_name
from tocsin.model.job import NAME_PATTERN
from tocsin.model.problems import parse_job
from tocsin.schedules import next_after, parse

NOW = datetime(2026, 5, 4, 3, 2, 1, 500_000, tzinfo=UTC)
REFUSED: set[str] = set()
FILES = sorted((Path(__file__).parents[1] / "data" / "beat").glob("beat_*.py"))


def made(entry: dict[str, Any], name: str = "entry") -> dict[str, Any]:
    document_ = document(name, {"task": "a.b", **entry}, app="app", zone="UTC", now=NOW)
    return parse_job(document_).document()


def variants(count: int) -> list[dict[str, Any]]:
    """crontab arguments as people write them, drawn by a fixed seed."""
    dice = random.Random(3)
    fields = {
        "minute": ["*", "*/7", "*/15", "0", "5,35", "10-20", "*/20,3", "1-59/2", 30],
        "hour": ["*", "*/6", "0", "9-17", "*/3,8-17", "22,23", 4],
        "day_of_month": ["*", "1", "1-7", "15,31", "*/2", "28-31", "2-30/3"],
        "month_of_year": ["*", "*/3", "1,6", "3-5", "2"],
        "day_of_week": ["*", "mon", "mon-fri", "sun", "0,6", "thu,fri", "*/2", "1-5"],
    }
    return [{name: dice.choice(choices) for name, choices in fields.items()} for _ in range(count)]


def celery_times(entry: crontab, day: date) -> list[datetime]:
    """What Celery's own parsed sets say of a day: every field must match."""
    if (
        day.month not in entry.month_of_year
        or day.day not in entry.day_of_month
        or day.isoweekday() % 7 not in entry.day_of_week
    ):
        return []
    return [
        datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
        for hour in sorted(entry.hour)
        for minute in sorted(entry.minute)
    ]


def test_crontabs_fire_when_celery_says() -> None:
    """Two years of days for 250 crontabs: the first and last time of each day that has any, and no other day."""
    start = date(2026, 1, 1)
    days = [start + timedelta(days=n) for n in range(730)]
    fired = 0
    for arguments in variants(250):
        entry = crontab(**arguments)
        if not any(celery_times(entry, day) for day in days):
            continue  # the 30th of February and its like are refused, or fire beyond these two years
        ours = parse(made({"schedule": entry})["schedule"])
        at = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)
        for day in days:
            times = celery_times(entry, day)
            if times:
                fired += 1
                assert next_after(ours, at) == times[0], (arguments, day)
                assert next_after(ours, times[-1] - timedelta(seconds=1)) == times[-1], (arguments, day)
                at = times[-1]
        following = next_after(ours, at)
        assert following is None or following.date() >= date(2028, 1, 1), arguments
    assert fired > 5000


def test_each_time_of_a_day_is_there() -> None:
    for arguments in variants(40):
        entry = crontab(**{**arguments, "day_of_month": "*", "month_of_year": "*", "day_of_week": "*"})
        ours = parse(made({"schedule": entry})["schedule"])
        at, found = datetime(2026, 3, 10, tzinfo=UTC) - timedelta(seconds=1), []
        while (at := next_after(ours, at)) < datetime(2026, 3, 11, tzinfo=UTC):  # type: ignore[operator, assignment]
            found.append(at)
        assert found == celery_times(entry, date(2026, 3, 10)), arguments


def test_day_of_month_and_day_of_week_are_both_asked() -> None:
    schedule_ = made({"schedule": crontab(minute=0, hour=0, day_of_month="1-7", day_of_week="mon")})[
        "schedule"
    ]
    assert (schedule_["cron"], schedule_["dayMatch"]) == ("0 0 1,2,3,4,5,6,7 * 1", "all")
    assert next_after(parse(schedule_), datetime(2026, 12, 1, tzinfo=UTC)) == datetime(
        2026, 12, 7, tzinfo=UTC
    )


@pytest.mark.parametrize("value", [30, 30.0, timedelta(seconds=30), schedule(timedelta(seconds=30))])
def test_intervals_run_from_now(value: Any) -> None:
    found = made({"schedule": value})["schedule"]
    assert (found["everySec"], found["anchor"]) == (30, "2026-05-04T03:02:01Z")


def test_options_and_arguments_are_kept() -> None:
    options = {"queue": "q", "priority": 3, "expires": timedelta(minutes=1), "headers": {"tenant": "x"}}
    task = made({"schedule": 5, "args": (1, "two"), "kwargs": {"three": [3]}, "options": options})["task"][
        "celery"
    ]
    assert task["args"] == [1, "two"]
    assert task["kwargs"] == {"three": [3]}
    assert (task["queue"], task["priority"], task["expiresSec"]) == ("q", 3, 60)
    assert task["headers"] == {"tenant": "x"}


def solar_like() -> Any:
    class Eclipse(schedule):  # type: ignore[misc]
        """A schedule of somebody's own."""

    return Eclipse(timedelta(hours=1))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"schedule": 0.5}, "every second at most"),
        ({"schedule": solar_like()}, "the type Eclipse is not known"),
        ({"schedule": None}, "the type NoneType is not known"),
        ({"schedule": crontab(nowfun=lambda: NOW)}, "set the app's `timezone`"),
        ({"schedule": 5, "options": {"countdown": 3}}, "options countdown cannot be kept"),
        ({"schedule": 5, "options": {"expires": NOW}}, "give seconds from the sending"),
        ({"schedule": 5, "task": None}, "give `task` the task's name"),
        ({"schedule": 5, "args": "ab"}, "args or kwargs are of a wrong type"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_name(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(EntryError) as refused:
        made(entry, "nightly")
    assert "beat_schedule['nightly']" in str(refused.value)
    assert words in str(refused.value)


def test_names_stay_apart() -> None:
    import re

    names = ["a", "a b", "a-b", "Ärger", "", "x" * 300, "every day at 9:30"]
    found = [job_name(name) for name in names]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(NAME_PATTERN, name) for name in found)
    assert job_name("report.daily") == "beat.report.daily"


def entries_of(path: Path) -> dict[str, Any]:
    """The entries of a file; one that makes solar schedules needs a library to be read at all."""
    found: dict[str, Any] = {}
    try:
        for value in runpy.run_path(str(path)).values():
            if type(value) is dict and value and all("schedule" in each for each in value.values()):
                found |= value
    except ImproperlyConfigured:
        assert "solar(" in path.read_text()
    return found


def taken(name: str, entry: dict[str, Any]) -> Any:
    """The job, or the reason against it."""
    try:
        return parse_job(document(name, entry, app="app", zone="UTC", now=NOW))
    except EntryError as refused:
        return refused


def test_real_schedules_are_taken_or_refused_with_a_reason() -> None:
    entries = [(name, entry) for path in FILES for name, entry in entries_of(path).items()]
    found = [taken(name, entry) for name, entry in entries]
    jobs = [job for job in found if not isinstance(job, EntryError)]
    assert len(entries) == 95
    assert all(next_after(job.schedule, NOW) is not None for job in jobs)
    assert {str(reason).partition(": ")[2] for reason in found if isinstance(reason, EntryError)} == REFUSED
