"""Every collected expression is accepted or refused as its row says, and a refusal helps."""

from __future__ import annotations

import re

import pytest

from schedules.recorded import expression_rows
from tocsin.schedules import ScheduleError, canonical, describe, parse

ROWS = expression_rows()
# The rows of other dialects that mean something in this one; every other such row is refused.
IN_OUR_DIALECT = {
    "@every 10m",
    "@every 10s",
    "@every 1h30m",
    "@every 1h30m10s",
    "@every 1m",
    "@every 60s",
    "0 9 * * 1#1",
    "0 0 3 * * *",
    "0 0 18 * * MON-FRI",
    "0 0 0 29 2 MON#1",
}
FIELDS = {"cron", "second", "minute", "hour", "dayOfMonth", "month", "dayOfWeek"}


def _accepted(row: dict[str, str]) -> bool:
    return row["valid"] == "yes" or row["expression"] in IN_OUR_DIALECT


@pytest.mark.parametrize("row", [row for row in ROWS if _accepted(row)], ids=lambda row: row["expression"])
def test_a_good_row_is_accepted(row: dict[str, str]) -> None:
    zone = row["timezone_or_empty"] or "UTC"
    every = row["expression"].startswith("@every")
    schedule = parse(row["expression"] if every else {"cron": row["expression"], "timeZone": zone})
    assert parse(canonical(schedule)) == schedule
    assert describe(schedule)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if not _accepted(row)], ids=lambda row: row["expression"]
)
def test_any_other_row_is_refused_with_a_field_and_a_fix(row: dict[str, str]) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(row["expression"])
    error = caught.value
    assert error.field in FIELDS
    assert re.fullmatch(r"cron_[a-z_]+", error.code)
    assert error.detail
    assert error.fix


def test_no_row_was_lost() -> None:
    kinds = [row["valid"] for row in ROWS]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"yes": 393, "dialect": 182, "no": 39}
    assert {row["expression"] for row in ROWS if row["valid"] == "dialect"} >= IN_OUR_DIALECT


# expression, code, field, a part of the fix
REFUSED = [
    ("*/60 * * * *", "cron_step", "minute", "`every: 60m`"),
    ("0 */24 * * *", "cron_step", "hour", "`every: 24h`"),
    ("0 0 */31 * *", "cron_step", "dayOfMonth", "write `1`"),
    ("0 0 * */12 *", "cron_step", "month", "write `1`"),
    ("0 0 * * */7", "cron_step", "dayOfWeek", "write `0`"),
    ("0 9-10/5 * * *", "cron_step", "hour", "write `9`"),
    ("0 9 8 * */0", "cron_step", "dayOfWeek", "1 or more"),
    ("0 23/6 * * *", "cron_step", "hour", "write `23`"),
    ("5/15 * * * *", "cron_step", "minute", "write `5-59/15`"),
    ("0 0 * * tue/2", "cron_step", "dayOfWeek", "write `2-6/2`"),
    ("0 22-5 * * *", "cron_reversed", "hour", "`22-23,0-5`"),
    ("0 23-5 * * *", "cron_reversed", "hour", "`23,0-5`"),
    ("* 17-2/3 * * *", "cron_reversed", "hour", "`17,20,23,2`"),
    ("0 0 * * mon-sun", "cron_reversed", "dayOfWeek", "`1-7`"),
    ("0 0 * * fri-mon", "cron_reversed", "dayOfWeek", "`5-6,0-1`"),
    ("0 0 * * 7-1", "cron_reversed", "dayOfWeek", "`0,1`"),
    ("0 0 * nov-feb *", "cron_reversed", "month", "`11-12,1-2`"),
    ("0 24 * * *", "cron_field_range", "hour", "0 for midnight"),
    ("60 * * * *", "cron_field_range", "minute", "0 to 59"),
    ("0 0 0 * *", "cron_field_range", "dayOfMonth", "1 to 31"),
    ("0 0 1 13 *", "cron_field_range", "month", "1 to 12"),
    ("0 0 * * 8", "cron_field_range", "dayOfWeek", "0 to 7"),
    ("61 0 0 * * *", "cron_field_range", "second", "0 to 59"),
    ("0 0 * * 1#6", "cron_field_range", "dayOfWeek", "`1L`"),
    ("0 0 * * 1#0", "cron_field_range", "dayOfWeek", "1 to 5"),
    ("1,,2 * * * *", "cron_field_syntax", "minute", "write `*`"),
    ("1- * * * *", "cron_field_syntax", "minute", "write `*`"),
    ("*-5 * * * *", "cron_field_syntax", "minute", "write `*`"),
    ("1-5-7 * * * *", "cron_field_syntax", "minute", "write `*`"),
    ("*/5/2 * * * *", "cron_field_syntax", "minute", "write `*`"),
    ("'0 4 * * *'", "cron_field_syntax", "cron", "remove the quotes"),
    ("* * * * monday", "cron_names", "dayOfWeek", "write `mon`"),
    ("* * * january *", "cron_names", "month", "write `jan`"),
    ("0 0 jan * *", "cron_names", "dayOfMonth", "only month and dayOfWeek"),
    ("0 0 * mon *", "cron_names", "month", "one of jan"),
    ("", "cron_fields", "cron", "leave the schedule out"),
    ("   ", "cron_fields", "cron", "leave the schedule out"),
    ("0 * * *", "cron_fields", "cron", "minute, hour"),
    ("0 0 0 1 1 * 2030", "cron_fields", "cron", "`start` and `end`"),
    ("* * * * * *", "cron_fields", "second", "`every: 1s`"),
    ("* 5 * * * *", "cron_fields", "second", "`*/1`"),
    ("10 4 * * * *", "cron_fields", "cron", "`10 4 * * *` for five fields, or `10 4 */1 * * *`"),
    ("0 0 31 2 *", "cron_never_fires", "dayOfMonth", "leaves out its schedule"),
    ("0 0 30 2 *", "cron_never_fires", "dayOfMonth", "leaves out its schedule"),
    ("0 0 31 2,4,6,9,11 *", "cron_never_fires", "dayOfMonth", "leaves out its schedule"),
    ("٥ * * * *", "cron_unicode", "cron", "ASCII"),
    ("0 9 * * 1–5", "cron_unicode", "cron", "plain hyphen"),
    ("0 9\u00a0* * 1", "cron_unicode", "cron", "plain spaces"),
    ("0 9 * * 1\n", "cron_unicode", "cron", "one line"),
    ("@DAILY", "cron_alias", "cron", "write `@daily`"),
    ("@reboot", "cron_alias", "cron", "by hand or by API"),
    ("@once", "cron_alias", "cron", "`at`"),
    ("@quarterly", "cron_alias", "cron", "`0 0 1 1,4,7,10 *`"),
    ("@fortnightly", "cron_alias", "cron", "`every: 336h`"),
    ("@EVERY 5m", "cron_alias", "cron", "`every: 15m`"),
    ("@tuesdays", "cron_alias", "cron", "five fields"),
    ("CRON_TZ=Asia/Tokyo 5 9 * * *", "cron_zone", "cron", "`timeZone`"),
    ("TZ=UTC 5 9 * * *", "cron_zone", "cron", "`timeZone`"),
    ("0 0 ? * 1", "cron_dialect", "dayOfMonth", "write `*`"),
    ("H H * * *", "cron_dialect", "minute", "`jitter`"),
    ("0 0 15W * *", "cron_dialect", "dayOfMonth", "`1-5`"),
    ("0 0 L-3 * *", "cron_dialect", "dayOfMonth", "write `L`"),
    ("0 0 * * L5", "cron_dialect", "dayOfWeek", "write `5L`"),
    ("0 0 * * L", "cron_dialect", "dayOfWeek", "`6L`"),
    ("R 0 * * *", "cron_dialect", "minute", "`jitter`"),
    ("rate(5 minutes)", "cron_dialect", "cron", "`every: 5m`"),
    ("timedelta(hours=6)", "cron_dialect", "cron", "`every: 6h`"),
    ("90", "cron_dialect", "cron", "`every: 90s`"),
    ("Mon *-*-1..7 03:44", "cron_dialect", "cron", "five fields"),
    ("daily", "cron_dialect", "cron", "`@daily`"),
    ("0 " * 501, "cron_too_long", "cron", "ranges and steps"),
    ("9" * 900 + " * * * *", "cron_field_range", "minute", "0 to 59"),
]


@pytest.mark.parametrize(("text", "code", "field", "fix"), REFUSED, ids=[row[0][:30] for row in REFUSED])
def test_a_refusal_names_the_field_and_the_fix(text: str, code: str, field: str, fix: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse({"cron": text})
    assert (caught.value.code, caught.value.field) == (code, field)
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    "text", [text for text, code, *_ in REFUSED if code in ("cron_step", "cron_reversed")]
)
def test_the_value_that_a_fix_offers_is_accepted(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(text)
    offered = re.match(r"write `([^`]+)`", caught.value.fix)
    if offered is None:
        return
    places = {"minute": 0, "hour": 1, "dayOfMonth": 2, "month": 3, "dayOfWeek": 4}
    words = text.split()
    words[places[caught.value.field]] = offered[1]
    parse(" ".join(words))


SAME = [
    ("00 07 * * MON-FRI", "0 7 * * 1-5"),
    ("0 0 1 DEC *", "0 0 1 12 *"),
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * sunL,SUN#2", "0 0 * * 0L,0#2"),
    ("0 0 l * *", "0 0 L * *"),
    ("  5\t4  * * * ", "5 4 * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "@daily"),
    ("@annually", "@yearly"),
    ("@hourly", "0 * * * *"),
    ("@weekly", "0 0 * * sun"),
    ("@monthly", "0 0 1 * *"),
    ("000005 * * * *", "5 * * * *"),
]


@pytest.mark.parametrize(("text", "other"), SAME)
def test_two_spellings_of_one_schedule_are_equal(text: str, other: str) -> None:
    assert parse(text) == parse(other)
    assert hash(parse(text)) == hash(parse(other))


def test_a_star_with_a_step_is_not_the_same_as_its_values() -> None:
    # `0-59/15` has a fixed time, `*/15` follows elapsed time: they differ when the clock changes.
    assert parse("*/15 1 * * *") != parse("0-59/15 1 * * *")
