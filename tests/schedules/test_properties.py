"""Random schedules around clock changes: the implementation agrees with the judge, and with itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schedules import oracle
from schedules.strategies import expressions, few, places
from tocsin.schedules import (
    Schedule,
    ScheduleError,
    canonical,
    count_between,
    describe,
    latest_at_or_before,
    next_after,
    parse,
    preview,
    spec_key,
)

GAPS, FOLDS = st.sampled_from(["next_valid", "skip"]), st.sampled_from(["first", "both"])
PLACES = places()


def _cron(expression: str, zone: str, **more: str) -> Schedule:
    try:
        return parse({"cron": expression, "timeZone": zone, **more})
    except ScheduleError as error:
        # What the generator makes is well-formed; all that can be wrong is what the rules call useless.
        assume(error.code not in ("cron_never_fires", "cron_fields"))
        raise


def _fires(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found: list[datetime] = []
    at = next_after(schedule, start)
    while at is not None and at <= end:
        assert not found or at > found[-1]
        found.append(at)
        at = next_after(schedule, at)
    return found


@few
@given(expressions(), PLACES, st.integers(1, 4 * 1440), GAPS, FOLDS)
def test_five_fields_agree_with_the_judge(
    expression: str, place: tuple[str, datetime], minutes: int, gap: str, fold: str
) -> None:
    zone, start = place
    end = start + timedelta(minutes=minutes)
    schedule = _cron(expression, zone, gap=gap, fold=fold)
    assert _fires(schedule, start, end) == oracle.fires(expression, zone, start, end, gap=gap, fold=fold)


@few
@given(expressions(seconds=True, dense=True), PLACES, st.integers(1, 90), GAPS, FOLDS)
def test_six_fields_agree_with_the_judge(
    expression: str, place: tuple[str, datetime], minutes: int, gap: str, fold: str
) -> None:
    zone, start = place
    end = start + timedelta(minutes=minutes)
    schedule = _cron(expression, zone, gap=gap, fold=fold)
    assume(count_between(schedule, start, end, 2000)[1] is False)
    assert _fires(schedule, start, end) == oracle.fires(expression, zone, start, end, gap=gap, fold=fold)


@few
@given(expressions(), PLACES, GAPS, FOLDS)
def test_backwards_and_counting_agree_with_forwards(
    expression: str, place: tuple[str, datetime], gap: str, fold: str
) -> None:
    zone, start = place
    schedule = _cron(expression, zone, gap=gap, fold=fold)
    end = start + timedelta(days=2, seconds=7)
    fires = _fires(schedule, start, end)
    assert latest_at_or_before(schedule, end, start) == (fires[-1] if fires else None)
    assert count_between(schedule, start, end, 10_000) == (len(fires), False)
    assert count_between(schedule, start, end, 1) == (min(len(fires), 1), len(fires) > 1)
    assert preview(schedule, start, 3)[: len(fires)] == fires[:3]
    for fire in fires[:5]:
        assert next_after(schedule, fire - timedelta(microseconds=1)) == fire
        assert latest_at_or_before(schedule, fire, start) == fire


@few
@given(
    st.integers(1, 400_000).map(lambda ms: timedelta(milliseconds=ms + 999)),
    st.integers(-(10**12), 10**12).map(
        lambda ms: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=ms)
    ),
    st.integers(0, 10**10),
)
def test_every_agrees_with_the_judge(interval: timedelta, anchor: datetime, micros: int) -> None:
    schedule = parse({"every": interval, "anchor": anchor})
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    end = start + interval * 7.3
    expected = oracle.fires_every(interval, anchor, start, end)
    assert _fires(schedule, start, end) == expected
    assert latest_at_or_before(schedule, end, start) == expected[-1]
    assert count_between(schedule, start, end, 100) == (len(expected), False)
    assert count_between(schedule, start, end, 3) == (3, True)


@few
@given(PLACES)
def test_a_local_at_agrees_with_the_judge(place: tuple[str, datetime]) -> None:
    zone, at = place
    wall = at.replace(tzinfo=None, second=0, microsecond=0)
    expected = oracle.fires_at(wall, zone)
    schedule = parse({"at": wall.isoformat(), "timeZone": zone})
    assert next_after(schedule, datetime(1970, 1, 1, tzinfo=UTC)) == expected
    if oracle.fires_at(wall, zone, gap="skip") is None:
        with pytest.raises(ScheduleError) as caught:
            parse({"at": wall.isoformat(), "timeZone": zone, "gap": "skip"})
        assert caught.value.code == "at_skipped"


DAYS = ["* * *", "L * *", "1,L * *", "29 2 *", "31 * *", "* * 5L", "* * 0L,1L", "* * 7#5", "* * 1#1,3#3", "13 * 5",
        "L 2 1#5", "*/7 * 1", "1 * */2", "*/10 1-6 tue#2"]  # fmt: skip


@pytest.mark.parametrize("days", DAYS)
def test_the_days_of_thirty_years_agree_with_the_judge(days: str) -> None:
    schedule, judge = parse(f"0 0 {days}"), oracle.parse(f"0 0 {days}")
    at = datetime(2075, 1, 1, tzinfo=UTC)
    end = datetime(2105, 1, 1, tzinfo=UTC)
    expected = [day for n in range((end - at).days + 1) if judge.matches(day := at + timedelta(days=n))]
    assert _fires(schedule, at - timedelta(seconds=1), end) == expected


@few
@given(expressions(), PLACES, GAPS, FOLDS, st.integers(0, 3_600_000))
def test_the_canonical_form_is_the_same_schedule(
    expression: str, place: tuple[str, datetime], gap: str, fold: str, jitter: int
) -> None:
    zone, start = place
    spec = {"cron": expression, "timeZone": zone, "gap": gap, "fold": fold, "start": start.isoformat()}
    assume(isinstance(_cron(expression, zone), Schedule))
    schedule = parse(spec | {"jitter": f"{jitter}ms"})
    again = parse(canonical(schedule))
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert canonical(again) == canonical(schedule)
    assert spec_key(schedule) == spec_key(parse(spec))
    assert describe(schedule)
