"""A job whose nominal times lie in the past gives exactly the runs and gaps that its catch-up mode says."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from store.builder import Bench
from tocsin.store.firing import fire

HALF_HOUR = timedelta(minutes=30)


def settle(bench: Bench) -> None:
    """Fire until nothing is due."""
    while fire(bench.conn, bench.plans, bench.owned, limit=100).due:
        pass


def past_job(bench: Bench, mode: str, overlap: str, *, back: timedelta) -> tuple[object, list[datetime]]:
    """A job every 30 minutes whose next nominal time is `back` ago; with all its nominal times until now."""
    start = bench.now().replace(microsecond=0) - back
    job = bench.job(
        start,
        schedule={"every": "30m", "anchor": start.isoformat()},
        catchUp={"mode": mode, "window": "10m"},
        concurrency={"overlap": overlap, "queueLimit": 1000},
    )
    count = back // HALF_HOUR + 1
    return job, [start + n * HALF_HOUR for n in range(count)]


@pytest.mark.parametrize("overlap", ["allow", "queue"])
@pytest.mark.parametrize("mode", ["all", "latest", "none"])
def test_an_outage_beyond_the_window(bench: Bench, mode: str, overlap: str) -> None:
    job, nominals = past_job(bench, mode, overlap, back=timedelta(minutes=135))
    settle(bench)
    ran = [at for at, _ in bench.runs(job)]
    expected = {"all": nominals, "latest": nominals[-1:], "none": []}[mode]
    assert ran == expected
    dropped = [at for at in nominals if at not in expected]
    gaps = [(dropped[0], dropped[-1], len(dropped))] if dropped else []
    assert bench.gaps(job) == gaps
    assert bench.triggers(job) == [(nominals[-1] + HALF_HOUR, "schedule")]


@pytest.mark.parametrize("mode", ["all", "latest", "none"])
def test_an_outage_within_the_window_loses_nothing(bench: Bench, mode: str) -> None:
    start = bench.now().replace(microsecond=0) - timedelta(seconds=305)
    job = bench.job(
        start, schedule={"every": "60s", "anchor": start.isoformat()}, catchUp={"mode": mode, "window": "10m"}
    )
    settle(bench)
    assert [at for at, _ in bench.runs(job)] == [start + timedelta(minutes=n) for n in range(6)]
    assert bench.gaps(job) == []


@pytest.mark.parametrize(("mode", "runs"), [("all", 1), ("latest", 1), ("none", 0)])
def test_a_one_off_in_the_past(bench: Bench, mode: str, runs: int) -> None:
    at = bench.now().replace(microsecond=0) - timedelta(hours=3)
    job = bench.job(at, schedule={"at": at.isoformat()}, catchUp={"mode": mode})
    settle(bench)
    assert len(bench.runs(job)) == runs
    assert bench.gaps(job) == ([] if runs else [(at, at, 1)])
    assert bench.triggers(job) == []


@pytest.mark.parametrize("mode", ["all", "latest"])
def test_what_is_past_retention_is_a_gap_in_every_mode(bench: Bench, mode: str) -> None:
    start = bench.now().replace(microsecond=0) - timedelta(days=40)
    job = bench.job(start, schedule={"every": "240h", "anchor": start.isoformat()}, catchUp={"mode": mode})
    settle(bench)
    nominals = [start + timedelta(days=10 * n) for n in range(5)]
    expected = nominals[2:] if mode == "all" else nominals[-1:]
    dropped = nominals[: -len(expected)]
    assert [at for at, _ in bench.runs(job)] == expected
    assert bench.gaps(job) == [(dropped[0], dropped[-1], len(dropped))]


def test_a_run_far_outside_the_prepared_days_gets_its_day(bench: Bench) -> None:
    at = bench.now().replace(microsecond=0) - timedelta(days=20)
    job = bench.job(at, schedule={"at": at.isoformat()}, catchUp={"mode": "all"})
    settle(bench)
    assert [when for when, _ in bench.runs(job)] == [at]


@pytest.mark.parametrize("mode", ["all", "latest"])
def test_a_one_off_past_retention_is_a_gap(bench: Bench, mode: str) -> None:
    at = bench.now().replace(microsecond=0) - timedelta(days=40)
    job = bench.job(at, schedule={"at": at.isoformat()}, catchUp={"mode": mode})
    settle(bench)
    assert bench.runs(job) == []
    assert bench.gaps(job) == [(at, at, 1)]
