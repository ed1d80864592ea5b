"""What a mapping or a text may say, and what is refused before anything else looks at it."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from tocsin.schedules import (
    AtSchedule,
    CronSchedule,
    EverySchedule,
    Schedule,
    ScheduleError,
    canonical,
    next_after,
    parse,
    spec_key,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CRON = {"cron": "30 2 * * 1-5"}

ACCEPTED: list[tuple[object, dict[str, object]]] = [
    ("every 15m", {"everySec": 900, "anchor": "1970-01-01T00:00:00Z"}),
    ("@every 1h30m10s", {"everySec": 5410}),
    (" every  90s ", {"everySec": 90}),
    ({"every": "1.5s"}, {"everySec": 1.5}),
    ({"every": "1250ms"}, {"everySec": 1.25}),
    ({"everySec": 900}, {"everySec": 900}),
    ({"everySec": 0.1 + 0.9}, {"everySec": 1}),
    ({"everySec": 1.001}, {"everySec": 1.001}),
    ({"every": timedelta(minutes=5)}, {"everySec": 300}),
    ({"every": "8784h"}, {"everySec": 366 * 86400}),
    ({"every": "1h", "anchor": "2026-01-01T00:30:00+01:00"}, {"anchor": "2025-12-31T23:30:00Z"}),
    ({"every": "1h", "timeZone": "Asia/Tokyo"}, {"timeZone": "Asia/Tokyo"}),
    ({"every": "1h", "cron": None, "at": None, "everySec": None}, {"everySec": 3600}),
    ("at 2026-03-08T02:30:00Z", {"at": "2026-03-08T02:30:00Z"}),
    ("at 2026-03-08 02:30+05:30", {"at": "2026-03-07T21:00:00Z"}),
    ({"at": "2026-03-08T02:30:00.25Z"}, {"at": "2026-03-08T02:30:00.250000Z"}),
    ({"at": datetime(2026, 3, 8, 2, 30, tzinfo=UTC)}, {"at": "2026-03-08T02:30:00Z"}),
    ({"at": "2026-03-08T02:30:00", "timeZone": "America/New_York"}, {"at": "2026-03-08T07:00:00Z"}),
    ({"at": "2026-03-08T02:00:00", "timeZone": "America/New_York"}, {"at": "2026-03-08T07:00:00Z"}),
    ({"at": "2026-03-08T03:00:00", "timeZone": "America/New_York"}, {"at": "2026-03-08T07:00:00Z"}),
    ({"at": "2026-11-01T01:30:00", "timeZone": "America/New_York"}, {"at": "2026-11-01T05:30:00Z"}),
    ({"at": datetime(2026, 7, 1, 9), "timeZone": "Europe/Berlin"}, {"at": "2026-07-01T07:00:00Z"}),
    ({"at": "2026-07-01T09:00", "timeZone": "Europe/Berlin", "gap": "skip", "fold": "both"}, {}),
    (CRON | {"timeZone": "Europe/Berlin", "gap": "skip", "fold": "both"}, {"gap": "skip", "fold": "both"}),
    (CRON | {"jitter": "60s"}, {"jitterSec": 60}),
    (CRON | {"jitterSec": 0.5}, {"jitterSec": 0.5}),
    (CRON | {"jitter": "1h"}, {"jitterSec": 3600}),
    (CRON | {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, {"end": "2026-01-01T00:00:00Z"}),
    (CRON | {"start": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))}, {"start": "2025-12-31T22:00:00Z"}),
    ({"cron": "@daily"}, {"cron": "0 0 * * *", "gap": "next_valid", "fold": "first", "timeZone": "UTC"}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "part"), ACCEPTED, ids=[str(row[0]) for row in ACCEPTED])
def test_accepted(given: object, part: dict[str, object]) -> None:
    schedule = parse(given)
    form = canonical(schedule)
    assert {key: form[key] for key in part} == part
    assert parse(json.loads(json.dumps(form))) == schedule
    assert list(form) == list(canonical(parse(form)))


# given, code, field, part of the fix
REFUSED: list[tuple[object, str, str, str]] = [
    (None, "invalid_type", "schedule", "mapping"),
    (5, "invalid_type", "schedule", "mapping"),
    (True, "invalid_type", "schedule", "mapping"),
    (b"0 0 * * *", "invalid_type", "schedule", "mapping"),
    (["0 0 * * *"], "invalid_type", "schedule", "mapping"),
    ({}, "schedule_kind", "schedule", "exactly one"),
    ({"cron": None}, "schedule_kind", "schedule", "exactly one"),
    ({"cron": "0 0 * * *", "every": "5m"}, "schedule_kind", "schedule", "exactly one"),
    ({"cron": "0 0 * * *", "at": "2026-01-01T00:00:00Z"}, "schedule_kind", "schedule", "exactly one"),
    ({"every": "5m", "everySec": 300}, "duration_twice", "everySec", "remove `everySec`"),
    (CRON | {"jitter": "5s", "jitterSec": 5}, "duration_twice", "jitterSec", "remove `jitterSec`"),
    (CRON | {"time_zone": "UTC"}, "unknown_field", "time_zone", "`timeZone`"),
    (CRON | {"timezone": "UTC"}, "unknown_field", "timezone", "`timeZone`"),
    (CRON | {"colour": 1}, "unknown_field", "colour", "known are"),
    (CRON | {5: 1}, "unknown_field", "5", "known are"),
    ({"cron": {"cron": "0 0 * * *"}}, "invalid_type", "cron", "quoted"),
    ({"cron": 5}, "invalid_type", "cron", "quoted"),
    ({"cron": b"0 0 * * *"}, "invalid_type", "cron", "quoted"),
    ({"cron": ["0 0 * * *"]}, "invalid_type", "cron", "quoted"),
    ({"cron": "@every 10m"}, "cron_alias", "cron", "`every: 15m`"),
    ({"cron": "0 0 * * *", "anchor": "2026-01-01T00:00:00Z"}, "field_not_applicable", "anchor", "remove"),
    ({"every": "5m", "gap": "skip"}, "field_not_applicable", "gap", "remove"),
    ({"every": "5m", "fold": "both"}, "field_not_applicable", "fold", "remove"),
    ({"at": "2026-01-01T00:00:00Z", "timeZone": "UTC", "gap": "skip"}, "field_not_applicable", "gap", "remove"),
    ({"every": "500ms"}, "duration_range", "every", "from 1s"),
    ({"every": "9000h"}, "duration_range", "every", "to 8784h"),
    ({"everySec": 0}, "duration_range", "everySec", "from 1s"),
    ({"everySec": -900}, "duration_range", "everySec", "from 1s"),
    ({"everySec": 10**30}, "duration_range", "everySec", "shorter"),
    ({"everySec": "900"}, "invalid_type", "everySec", "number"),
    ({"everySec": True}, "invalid_type", "everySec", "number"),
    ({"everySec": float("nan")}, "duration_syntax", "everySec", "three decimal"),
    ({"everySec": float("inf")}, "duration_syntax", "everySec", "three decimal"),
    ({"everySec": 1.0005}, "duration_syntax", "everySec", "three decimal"),
    ({"every": timedelta(seconds=1, microseconds=5)}, "duration_syntax", "every", "three decimal"),
    ({"every": "15"}, "duration_syntax", "every", "`15s`"),
    ({"every": "1d"}, "duration_syntax", "every", "`24h`"),
    ({"every": "2w"}, "duration_syntax", "every", "`336h`"),
    ({"every": "-5m"}, "duration_syntax", "every", "not negative"),
    ({"every": "5 m"}, "duration_syntax", "every", "`1h30m`"),
    ({"every": "٥m"}, "duration_syntax", "every", "`1h30m`"),
    ({"every": "1.0000001s"}, "duration_syntax", "every", "`1h30m`"),
    ({"every": "1s" * 500}, "duration_syntax", "every", "`1h30m`"),
    ({"every": None, "everySec": []}, "invalid_type", "everySec", "number"),
    ({"every": {"every": "5m"}}, "invalid_type", "every", "`15m`"),
    (CRON | {"jitter": "-1s"}, "duration_syntax", "jitter", "not negative"),
    (CRON | {"jitterSec": -1}, "duration_range", "jitterSec", "from 0s"),
    (CRON | {"jitter": "61m"}, "duration_range", "jitter", "to 1h"),
    (CRON | {"jitter": timedelta(seconds=-1)}, "duration_range", "jitter", "from 0s"),
    (CRON | {"gap": "later"}, "invalid_choice", "gap", "`next_valid` or `skip`"),
    (CRON | {"fold": "second"}, "invalid_choice", "fold", "`first` or `both`"),
    (CRON | {"fold": ["first"]}, "invalid_choice", "fold", "`first` or `both`"),
    (CRON | {"start": "2026-01-01"}, "instant_syntax", "start", "`2026-03-08T02:30:00Z`"),
    (CRON | {"start": date(2026, 1, 1)}, "invalid_type", "start", "`2026-03-08T02:30:00Z`"),
    (CRON | {"start": 1767225600}, "invalid_type", "start", "`2026-03-08T02:30:00Z`"),
    (CRON | {"start": "2026-01-01T00:00:00"}, "instant_naive", "start", "`2026-01-01T00:00:00Z`"),
    (CRON | {"end": datetime(2026, 1, 1)}, "instant_naive", "end", "`2026-01-01T00:00:00Z`"),
    (CRON | {"end": "2026-13-01T00:00:00Z"}, "instant_syntax", "end", "write an instant"),
    (CRON | {"end": "0001-01-01T00:00:00+05:00"}, "instant_syntax", "end", "within these years"),
    (CRON | {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, "bounds_reversed", "end", "later"),
    ({"at": "2026-03-08T02:30:00"}, "instant_naive", "at", "Z`"),
    ("at 2026-03-08T02:30:00", "instant_naive", "at", "Z`"),
    ("at noon", "instant_syntax", "at", "write an instant"),
    ({"at": "2026-03-08T02:30:00", "timeZone": "America/New_York", "gap": "skip"}, "at_skipped", "at", "next_valid"),
    ({"at": "2026-11-01T01:30:00", "timeZone": "America/New_York", "fold": "both"}, "at_ambiguous", "fold", "first"),
    ({"at": "9999-12-31T23:59:00", "timeZone": "America/New_York"}, "instant_syntax", "at", "years"),
    ("0 " * 100_000, "cron_too_long", "cron", "ranges"),
    ("every " + "1" * 100_000, "cron_too_long", "cron", "ranges"),
    (CRON | {"timeZone": "x" * 100_000}, "time_zone_unknown", "timeZone", "`UTC`"),
    (CRON | {"x" * 100_000: 1}, "unknown_field", "x" * 40, "known are"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "field", "fix"), REFUSED, ids=[str(row[0])[:60] for row in REFUSED]
)
def test_refused(given: object, code: str, field: str, fix: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(given)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert fix in caught.value.fix
    assert len(str(caught.value)) < 600


ZONES = [
    ("Europe/Berlim", "`Europe/Berlin`"),
    ("europe/berlin", "`Europe/Berlin`"),
    ("Berlin", "`Europe/Berlin`"),
    ("new york", "`America/New_York`"),
    ("US/Pasific", "`US/Pacific`"),
    ("/etc/localtime", "write a name"),
    ("../UTC", "did you mean `UTC`"),
    ("Europe/../UTC", "did you mean"),
    ("localtime", "write a name"),
    ("posixrules", "write a name"),
    ("", "write a name"),
    ("UTC\x00", "did you mean"),
    (5, "write a name"),
    (["UTC"], "did you mean"),
]


@pytest.mark.parametrize(("zone", "fix"), ZONES, ids=[repr(row[0]) for row in ZONES])
def test_an_unknown_zone_is_refused_with_near_names(zone: object, fix: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(CRON | {"timeZone": zone})
    assert (caught.value.code, caught.value.field) == ("time_zone_unknown", "timeZone")
    assert fix in caught.value.fix


def test_the_kind_of_each() -> None:
    assert isinstance(parse("0 0 * * *"), CronSchedule)
    assert isinstance(parse("every 5m"), EverySchedule)
    assert isinstance(parse("at 2026-03-08T02:30:00Z"), AtSchedule)
    assert [parse(s).kind for s in ("0 0 * * *", "every 5m", "at 2026-03-08T02:30:00Z")] == [
        "cron",
        "every",
        "at",
    ]


SOME: list[Any] = ["30 2 * * *", "every 5m", "at 2026-03-08T02:30:00Z", CRON | {"timeZone": "Asia/Tokyo"}]


@pytest.mark.parametrize("given", SOME, ids=str)
def test_a_schedule_is_a_value(given: object) -> None:
    schedule = parse(given)
    for twin in (parse(given), copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule))):
        assert twin == schedule
        assert hash(twin) == hash(schedule)
        assert next_after(twin, EPOCH) == next_after(schedule, EPOCH)
    with pytest.raises(AttributeError):
        schedule.time_zone = "UTC"  # type: ignore[misc]


def _key(given: object) -> str:
    return spec_key(parse(given))


def test_the_spec_key_is_shared_by_what_fires_at_the_same_instants() -> None:
    assert _key(CRON) == _key(CRON | {"jitter": "5s", "timeZone": "UTC"})
    assert _key("every 5m") == _key({"everySec": 300, "timeZone": "Asia/Tokyo"})
    assert _key("0 * * * *") == _key({"cron": "@hourly", "gap": "skip", "fold": "both"})


@pytest.mark.parametrize(
    "change",
    [{"timeZone": "Asia/Tokyo"}, {"gap": "skip"}, {"fold": "both"}, {"start": "2026-01-01T00:00:00Z"},
     {"end": "2026-01-01T00:00:00Z"}, {"cron": "31 2 * * 1-5"}],
)  # fmt: skip
def test_the_spec_key_differs_with_everything_that_matters(change: dict[str, str]) -> None:
    assert _key(CRON) != _key(CRON | change)


def test_schedule_is_a_type_that_isinstance_knows() -> None:
    assert isinstance(parse("0 0 * * *"), Schedule)
