"""Bounds, the edges of the calendar, bounded work, jitter, and the words."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tocsin.clock import to_micros
from tocsin.schedules import (
    count_between,
    describe,
    jitter_for,
    latest_at_or_before,
    next_after,
    parse,
    preview,
)

MICRO = timedelta(microseconds=1)
T0 = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("spec", [{"cron": "0 * * * *"}, {"every": "1h"}], ids=["cron", "every"])
def test_start_and_end_are_both_inclusive(spec: dict[str, str]) -> None:
    schedule = parse(spec | {"start": "2026-01-01T10:00:00Z", "end": "2026-01-01T12:00:00Z"})
    hours = [at(f"2026-01-01T{hour}:00:00Z") for hour in (10, 11, 12)]
    assert preview(schedule, at("2020-01-01T00:00:00Z"), 10) == hours
    assert count_between(schedule, FIRST, LAST, 10) == (3, False)
    assert latest_at_or_before(schedule, LAST, FIRST) == hours[-1]
    assert latest_at_or_before(schedule, hours[0] - MICRO, FIRST) is None
    assert next_after(schedule, hours[-1]) is None
    inside = parse(spec | {"start": "2026-01-01T10:00:00.000001Z", "end": "2026-01-01T11:59:59.999999Z"})
    assert preview(inside, FIRST, 10) == [hours[1]]


def test_at_respects_its_bounds() -> None:
    one = {"at": "2026-01-01T10:00:00.5Z"}
    instant = at("2026-01-01T10:00:00.500000Z")
    assert next_after(parse(one), instant - MICRO) == instant
    assert next_after(parse(one), instant) is None
    assert latest_at_or_before(parse(one), instant, instant - MICRO) == instant
    assert latest_at_or_before(parse(one), LAST, instant) is None
    assert count_between(parse(one), FIRST, LAST, 5) == (1, False)
    assert count_between(parse(one), FIRST, LAST, 0) == (0, True)
    assert next_after(parse(one | {"start": "2026-01-01T10:00:01Z"}), FIRST) is None
    assert next_after(parse(one | {"end": "2026-01-01T10:00:00Z"}), FIRST) is None


@pytest.mark.parametrize("text", ["0 * * * *", "every 5m", "at 2026-01-01T10:00:00Z"])
def test_a_naive_instant_raises_value_error(text: str) -> None:
    schedule, naive = parse(text), datetime(2026, 1, 1)
    calls: list[Callable[[], object]] = [
        lambda: next_after(schedule, naive),
        lambda: preview(schedule, naive, 1),
        lambda: latest_at_or_before(schedule, naive, naive),
        lambda: count_between(schedule, naive, naive, 1),
        lambda: jitter_for(uuid.UUID(int=1), naive, timedelta(seconds=5)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="naive"):
            call()


def test_the_answer_is_utc_whatever_the_question_was_in() -> None:
    asked = datetime(2026, 3, 4, 5, 30, tzinfo=timezone(timedelta(hours=5)))
    for text in ("0 * * * *", "every 1h"):
        found = next_after(parse(text), asked)
        assert found == at("2026-03-04T01:00:00Z")
        assert found is not None
        assert found.tzinfo is UTC


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Adak", "Europe/Berlin"])
@pytest.mark.parametrize("text", ["0 * * * *", "59 23 31 12 *", "0 0 1 1 *", "0 0 29 2 *"])
def test_the_edges_of_the_calendar_do_not_crash(text: str, zone: str) -> None:
    schedule = parse({"cron": text, "timeZone": zone})
    assert next_after(schedule, LAST) is None
    before_end = next_after(schedule, at("9990-01-01T00:00:00Z"))
    assert before_end is not None
    first = next_after(schedule, FIRST)
    assert first is not None
    assert first.year <= 4
    assert latest_at_or_before(schedule, FIRST, FIRST) is None
    assert latest_at_or_before(schedule, LAST, LAST - timedelta(days=3000)) is not None


@pytest.mark.parametrize("text", ["* * * * *", "every 1h", "at 2026-03-08T02:30:00Z"])
def test_instants_that_utc_cannot_write_do_not_crash(text: str) -> None:
    schedule = parse(text)
    before = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    after = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14)))
    found = next_after(schedule, before)
    assert found is not None
    assert found >= FIRST
    assert next_after(schedule, after) is None
    assert latest_at_or_before(schedule, before + timedelta(hours=1), before) is None
    assert count_between(schedule, before, before + timedelta(hours=1), 5) == (0, False)


def test_every_ends_with_the_calendar_and_reaches_before_its_anchor() -> None:
    schedule = parse({"every": "8784h", "anchor": "2026-01-01T00:00:00Z"})
    assert next_after(schedule, LAST - timedelta(days=1)) is None
    assert next_after(schedule, at("2025-01-01T00:00:00Z")) == at("2026-01-01T00:00:00Z")
    assert next_after(schedule, at("2024-12-30T00:00:00Z")) == at("2024-12-31T00:00:00Z")


def test_before_1970() -> None:
    assert next_after(parse("0 0 * * *"), at("1969-07-20T20:17:40Z")) == at("1969-07-21T00:00:00Z")
    assert next_after(parse("every 1h"), at("1969-12-31T23:30:00Z")) == at("1970-01-01T00:00:00Z")
    assert next_after(parse("every 1h"), at("1969-12-31T22:00:00Z")) == at("1969-12-31T23:00:00Z")


RARE = [
    ("0 0 29 2 *", "1896-02-29T00:00:00Z", "1904-02-29T00:00:00Z"),
    ("0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
    ("0 0 * 2 1#5", "2072-02-29T00:00:00Z", "2112-02-29T00:00:00Z"),
    ("0 0 * 2 0#5", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"),
    ("0 0 29 2 */6", "2092-02-29T00:00:00Z", "2116-02-29T00:00:00Z"),
]


def _lines(call: Callable[[], object]) -> int:
    """How many lines of Python a call runs: a measure of work that no other load changes."""
    count = 0

    def tracer(frame: object, event: str, _: object) -> object:
        nonlocal count
        count += event == "line"
        return tracer

    old = sys.gettrace()
    sys.settrace(tracer)  # type: ignore[arg-type]
    try:
        call()
    finally:
        sys.settrace(old)
    return count


@pytest.mark.parametrize(("text", "asked", "expected"), RARE)
def test_rare_days_are_found_in_bounded_work(text: str, asked: str, expected: str) -> None:
    schedule = parse({"cron": text})
    assert next_after(schedule, at(asked)) == at(expected)
    assert _lines(lambda: next_after(schedule, at(asked))) < 1000


def test_the_usual_question_is_cheap() -> None:
    hourly = parse({"cron": "0 * * * *", "timeZone": "Europe/Berlin"})
    daily = parse({"cron": "30 2 * * 1-5", "timeZone": "Europe/Berlin"})
    for schedule, most in ((hourly, 50), (daily, 90)):
        next_after(schedule, T0)  # the zone's rows are built once
        assert _lines(lambda schedule=schedule: next_after(schedule, T0)) < most


def test_looking_back_is_bounded_however_dense_the_schedule() -> None:
    every_second = parse("*/1 * * * * *")
    latest_at_or_before(every_second, T0, FIRST)
    assert _lines(lambda: latest_at_or_before(every_second, T0, FIRST)) < 1000
    rare = parse("0 0 * 2 1#5")
    assert latest_at_or_before(rare, at("2111-01-01T00:00:00Z"), FIRST) == at("2072-02-29T00:00:00Z")
    assert _lines(lambda: latest_at_or_before(rare, at("2111-01-01T00:00:00Z"), FIRST)) < 50_000


def test_every_is_arithmetic() -> None:
    schedule = parse("every 1s")
    year = timedelta(days=365)
    assert count_between(schedule, T0, T0 + year, 10**9) == (365 * 86400, False)
    assert _lines(lambda: count_between(schedule, T0, T0 + year, 10**9)) < 100
    assert _lines(lambda: latest_at_or_before(schedule, T0 + year, T0)) < 50


def test_a_cap_of_zero_and_an_empty_window() -> None:
    for text in ("* * * * *", "every 60s"):
        schedule = parse(text)
        assert count_between(schedule, T0, T0 + timedelta(hours=1), 0) == (0, True)
        assert count_between(schedule, T0, T0, 5) == (0, False)
        assert latest_at_or_before(schedule, T0, T0) is None
        assert preview(schedule, T0, 0) == []


def test_jitter_is_the_formula_that_the_database_computes_too() -> None:
    job, spread = uuid.UUID("0190b6f0-7c1e-7aaa-8bbb-123456789ABC"), timedelta(seconds=60)
    text = "0190b6f0-7c1e-7aaa-8bbb-123456789abc:1772600767000000"
    assert to_micros(T0) == 1772600767000000
    share = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
    assert jitter_for(job, T0, spread) == timedelta(microseconds=60_000_000 * share // 2**32)
    assert jitter_for(job, T0, timedelta(0)) == timedelta(0)


def test_jitter_stays_in_range_and_spreads() -> None:
    spread = timedelta(seconds=10)
    delays = [jitter_for(uuid.UUID(int=n), T0, spread) for n in range(2000)]
    assert all(timedelta(0) <= delay < spread for delay in delays)
    for tenth in range(10):
        low = timedelta(seconds=tenth)
        assert 130 < sum(low <= delay < low + timedelta(seconds=1) for delay in delays) < 270
    assert jitter_for(uuid.UUID(int=1), T0, spread) != jitter_for(uuid.UUID(int=1), T0 + MICRO, spread)


WORDS = [
    ({"cron": "30 2 * * 1-5", "timeZone": "Europe/Berlin"}, "at 02:30 on Monday to Friday, Europe/Berlin"),
    ("@daily", "at 00:00, UTC"),
    ("0 * * * *", "at minute 0 of every hour, UTC"),
    ("* * * * *", "every minute, UTC"),
    ("*/15 9-17 * * 1-5", "every 15 minutes of hours 09 to 17 on Monday to Friday, UTC"),
    ("*/40 * * * *", "at minutes 0 and 40 of every hour, UTC"),
    ("0 */2 * * *", "at minute 0 of every second hour, UTC"),
    ("5 0,12 1 1,7 *", "at 00:05 and 12:05 on day 1 of the month in January and July, UTC"),
    ("0 0 13 * 5", "at 00:00 on day 13 of the month or on Friday, UTC"),
    ("0 0 */2 * 5", "and on Friday"),
    ("0 9 L * *", "at 09:00 on the last day of the month, UTC"),
    ("0 9 * * 1#1,5L", "at 09:00 on the first Monday of the month and the last Friday of the month, UTC"),
    ("0 9 * * 6,7", "at 09:00 on Saturday and Sunday, UTC"),
    ("10 30 2 * * *", "at 02:30:10, UTC"),
    ("*/10 * * * * *", "every 10 seconds, UTC"),
    ("*/1 * * * * *", "every second, UTC"),
    ("10 */5 * * * *", "at second 10 of every 5 minutes of every hour, UTC"),
    ("every 15m", "every 15 minutes"),
    ("every 1h", "every hour"),
    ("every 1h30m", "every 90 minutes"),
    ("every 1500ms", "every 1s500ms"),
    ({"every": "24h", "anchor": "2026-01-01T00:00:00Z"}, "every day, counted from 2026-01-01T00:00:00Z"),
    ("at 2026-03-08T02:30:00Z", "once at 2026-03-08T02:30:00Z"),
    ({"cron": "0 2 * * *", "end": "2026-03-08T02:30:00Z", "jitter": "1m"},
     "at 02:00, UTC, until 2026-03-08T02:30:00Z, each run up to 1 minute later"),
    ({"cron": "0 2 * * *", "start": "2026-03-08T02:30:00Z"}, "at 02:00, UTC, from 2026-03-08T02:30:00Z"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "words"), WORDS, ids=[str(row[0]) for row in WORDS])
def test_describe(given: object, words: str) -> None:
    said = describe(parse(given))
    assert words == said or (words.startswith("and") and words in said)
