"""The recorded instants decide: the implementation and the judge are both held to them."""

from __future__ import annotations

import pytest

from schedules import oracle
from schedules.recorded import FiresCase, fires_cases
from tocsin.schedules import CronSchedule, count_between, latest_at_or_before, next_after, parse

CASES = fires_cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_next_after_gives_the_recorded_instants(case: FiresCase) -> None:
    schedule = parse({"cron": case.expression, "timeZone": case.zone})
    assert isinstance(schedule, CronSchedule)
    assert schedule.plan.table.wildcard == case.wildcard
    found, at = [], case.start
    while (at := next_after(schedule, at)) is not None and at <= case.end:
        found.append(at)
    assert found == case.fires
    assert count_between(schedule, case.start, case.end, 10**6) == (len(case.fires), False)
    latest = case.fires[-1] if case.fires else None
    assert latest_at_or_before(schedule, case.end, case.start) == latest


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_judge_gives_the_recorded_instants(case: FiresCase) -> None:
    assert oracle.fires(case.expression, case.zone, case.start, case.end) == case.fires


def test_there_are_enough_cases_of_each_sort() -> None:
    assert len(CASES) == 250
    assert sum(case.around in ("spring-forward", "fall-back") for case in CASES) >= 150
