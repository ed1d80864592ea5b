"""The table of docs/schedules.md: what runs when the clock jumps. The expected times are written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from schedules import oracle
from tocsin.schedules import next_after, parse

NEW_YORK = "America/New_York"
NEXT, SKIP, FIRST, BOTH = "next_valid", "skip", "first", "both"

# what, expression, zone, gap, fold, a UTC day, the firing times on it (UTC)
TABLE = [
    ("fixed in a gap", "30 2 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", ["07:00"]),
    ("fixed in a gap, skip", "30 2 * * *", NEW_YORK, SKIP, FIRST, "2026-03-08", []),
    ("fixed at the gap's first minute", "0 2 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", ["07:00"]),
    ("fixed at the minute after", "0 3 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", ["07:00"]),
    ("several collapse", "0,20,40 2 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", ["07:00"]),
    ("collapse onto one", "0 2,3 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", ["07:00"]),
    ("both, skip", "0 2,3 * * *", NEW_YORK, SKIP, FIRST, "2026-03-08", ["07:00"]),
    ("wildcard hour in a gap", "30 */2 8 3 *", NEW_YORK, NEXT, FIRST, "2026-03-08",
     ["05:30", "08:30", "10:30", "12:30", "14:30", "16:30", "18:30", "20:30", "22:30"]),
    ("wildcard minute in a gap", "*/30 2 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", []),
    ("fixed, repeated", "30 1 * * *", NEW_YORK, NEXT, FIRST, "2026-11-01", ["05:30"]),
    ("fixed, repeated, both", "30 1 * * *", NEW_YORK, NEXT, BOTH, "2026-11-01", ["05:30", "06:30"]),
    ("fixed just before", "59 0 * * *", NEW_YORK, NEXT, FIRST, "2026-11-01", ["04:59"]),
    ("fixed just after", "0 2 * * *", NEW_YORK, NEXT, FIRST, "2026-11-01", ["07:00"]),
    ("wildcard minute, repeated", "*/30 1 * * *", NEW_YORK, NEXT, FIRST, "2026-11-01",
     ["05:00", "05:30", "06:00", "06:30"]),
    ("half an hour forward", "15 2 * * *", "Australia/Lord_Howe", NEXT, FIRST, "2026-10-03", ["15:30"]),
    ("half an hour back", "45 1 * * *", "Australia/Lord_Howe", NEXT, FIRST, "2026-04-04", ["14:45"]),
    ("half an hour back, both", "45 1 * * *", "Australia/Lord_Howe", NEXT, BOTH, "2026-04-04",
     ["14:45", "15:15"]),
    ("shift at 00:01", "30 0 * * *", "America/St_Johns", NEXT, FIRST, "2011-03-13", ["03:31"]),
    ("midnight skipped", "0 0 * * *", "America/Havana", NEXT, FIRST, "2026-03-08", ["05:00"]),
    ("midnight skipped, skip", "0 0 * * *", "America/Havana", SKIP, FIRST, "2026-03-08", []),
    ("midnight repeated", "0 0 * * *", "America/Havana", NEXT, FIRST, "2026-11-01", ["04:00"]),
    ("a skipped day is one run", "0 9,12,15 * * *", "Pacific/Apia", NEXT, FIRST, "2011-12-30",
     ["01:00", "10:00", "19:00", "22:00"]),
    ("a skipped day, skip", "0 9,12,15 * * *", "Pacific/Apia", SKIP, FIRST, "2011-12-30", ["01:00", "19:00", "22:00"]),
    ("only on the skipped day", "0 9 30 12 *", "Pacific/Apia", NEXT, FIRST, "2011-12-30", ["10:00"]),
    ("a day backwards", "0 9 * * *", "Pacific/Kwajalein", NEXT, FIRST, "1969-09-30", []),
    ("a day backwards, both", "0 9 30 9 *", "Pacific/Kwajalein", NEXT, BOTH, "1969-09-30", ["21:00"]),
    ("half an hour for good", "45 2 * * *", "America/Caracas", NEXT, FIRST, "2016-05-01", ["07:00"]),
    ("half an hour back for good", "45 23 * * *", "Asia/Pyongyang", NEXT, FIRST, "2015-08-14", ["14:45"]),
    ("two hours forward", "30 2 * * *", "Antarctica/Troll", NEXT, FIRST, "2026-03-29", ["01:00"]),
    ("two hours back", "30 2 * * *", "Antarctica/Troll", NEXT, FIRST, "2026-10-25", ["00:30"]),
    ("seconds in a gap", "10 30 2 * * *", NEW_YORK, NEXT, FIRST, "2026-03-08", ["07:00"]),
    ("seconds, repeated", "10 30 1 * * *", NEW_YORK, NEXT, FIRST, "2026-11-01", ["05:30:10"]),
    ("a star in seconds is no wildcard", "*/30 30 1 * * *", NEW_YORK, NEXT, FIRST, "2026-11-01",
     ["05:30", "05:30:30"]),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=[f"{row[0]}: {row[1]}" for row in TABLE])
def test_the_table(row: tuple[str, str, str, str, str, str, list[str]]) -> None:
    _, expression, zone, gap, fold, day, times = row
    schedule = parse({"cron": expression, "timeZone": zone, "gap": gap, "fold": fold})
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(microseconds=1)
    end = start + timedelta(days=1)
    found, at = [], start
    while (at := next_after(schedule, at)) is not None and at <= end:
        found.append(at)
    assert found == [datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC) for time in times]
    assert found == oracle.fires(expression, zone, start, end, gap=gap, fold=fold)


def test_a_start_inside_the_repeated_hour_gives_no_second_run() -> None:
    spec = {"cron": "30 1 * * *", "timeZone": NEW_YORK, "start": "2026-11-01T06:00:00Z"}
    asked = datetime(2026, 10, 31, tzinfo=UTC)
    assert next_after(parse(spec), asked) == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    assert next_after(parse(spec | {"fold": "both"}), asked) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)


def test_asking_inside_the_repeated_hour_never_answers_with_the_past() -> None:
    schedule = parse({"cron": "30 1 * * *", "timeZone": NEW_YORK})
    for minute in range(0, 181, 7):
        asked = datetime(2026, 11, 1, 5, 0, tzinfo=UTC) + timedelta(minutes=minute)
        assert next_after(schedule, asked) > asked


def test_an_offset_with_seconds_fires_when_the_local_clock_shows_the_whole_minute() -> None:
    # Monrovia was 44 minutes and 30 seconds behind until 1972-01-07, then jumped from 00:00:00 to 00:44:30.
    schedule = parse({"cron": "0 12 * * *", "timeZone": "Africa/Monrovia"})
    asked = datetime(1971, 6, 1, tzinfo=UTC)
    assert next_after(schedule, asked) == datetime(1971, 6, 1, 12, 44, 30, tzinfo=UTC)
    skipped = parse({"cron": "30 0 * * *", "timeZone": "Africa/Monrovia"})
    asked = datetime(1972, 1, 6, 12, tzinfo=UTC)
    assert next_after(skipped, asked) == datetime(1972, 1, 7, 0, 45, tzinfo=UTC)
