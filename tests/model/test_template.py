"""Places that are filled in: a closed list of names, checked when the job is made, harmless wherever they stand."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tocsin.clock import to_micros
from tocsin.errors import InvalidError, Problem
from tocsin.ids import RunKey
from tocsin.model.problems import parse_job
from tocsin.model.template import NAMES, fill, fill_json, run_values

AT = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
# A fixed ID: the names of the tests must be the same in every process.
KEY = RunKey(UUID("019d36c8-74c0-74fa-baba-cc083220600b"), to_micros(AT))
VALUES = run_values(KEY, attempt=2, job_name="nightly", time_zone="Europe/Berlin")


def problems(**http: Any) -> list[Problem]:
    try:
        parse_job({"name": "n", "task": {"http": {"url": "https://t.example/", **http}}})
    except InvalidError as error:
        return error.problems
    return []


def test_every_name_stands_for_something() -> None:
    assert {
        "runId": str(KEY),
        "attempt": "2",
        "jobName": "nightly",
        "nominalTime": "2026-03-28T23:30:00Z",
        "nominalDate": "2026-03-29",  # the day in Berlin
    } == VALUES
    assert set(VALUES) == set(NAMES)


@pytest.mark.parametrize(
    ("zone", "date"),
    [
        (None, "2026-03-28"),
        ("UTC", "2026-03-28"),
        ("Asia/Tokyo", "2026-03-29"),
        ("America/Lima", "2026-03-28"),
        ("No/Where", "2026-03-28"),
    ],
)
def test_the_date_is_that_of_the_schedule_s_zone(zone: str | None, date: str) -> None:
    assert run_values(KEY, attempt=1, job_name="n", time_zone=zone)["nominalDate"] == date


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("", ""),
        ("plain { } }} text", "plain { } }} text"),
        ("{{runId}}", str(KEY)),
        ("{{ attempt }}/{{jobName}}", "2/nightly"),
        ("{{\tnominalDate\n}}", "2026-03-29"),
        ('{{ "{{" }} runId }}', "{{ runId }}"),
        ("{{{ attempt }}}", None),
        ('{"a": {"b": {"c": 1}}}', '{"a": {"b": {"c": 1}}}'),
    ],
)
def test_places_are_filled_in(text: str, filled: str | None) -> None:
    if filled is None:
        assert problems(body=text)
    else:
        assert problems(body=text) == []
        assert fill(text, VALUES) == filled


def test_a_json_document_stays_one() -> None:
    document = {"{{ runId }}": ["{{ attempt }}", 1, None, {"a": "{{jobName}}-{{ attempt }}"}], "b": True}
    filled = fill_json(document, VALUES)
    assert filled == {"{{ runId }}": ["2", 1, None, {"a": "nightly-2"}], "b": True}
    assert json.loads(json.dumps(filled)) == filled
    assert document["b"] is True


@pytest.mark.parametrize(
    ("http", "pointer", "code", "fix"),
    [
        ({"body": "{{ runid }}"}, "#/task/http/body", "template_name", "{{ runId }}"),
        ({"body": "{{ env.HOME }}"}, "#/task/http/body", "template_name", "write one of runId"),
        ({"body": "{{ runId | upper }}"}, "#/task/http/body", "template_name", "write one of runId"),
        ({"body": "{{}}"}, "#/task/http/body", "template_name", "write one of"),
        ({"body": "{{ runId"}, "#/task/http/body", "template_open", "}}"),
        ({"json": {"a": ["{{ secret }}"]}}, "#/task/http/json", "template_name", "write one of"),
        (
            {"headers": {"X-A": "{{ nominaltime }}"}},
            "#/task/http/headers/X-A",
            "template_name",
            "{{ nominalTime }}",
        ),
        ({"headers": {"X-{{runId}}": "a"}}, "#/task/http/headers", "http_header", "RFC 9110"),
        ({"url": "https://t.example/{{runId}}"}, "#/task/http/url", "http_url_template", "headers and body"),
    ],
)
def test_what_is_not_known_is_refused_at_creation(
    http: dict[str, Any], pointer: str, code: str, fix: str
) -> None:
    (problem,) = problems(**http)
    assert (problem.pointer, problem.code) == (pointer, code)
    assert fix in problem.fix


def test_no_value_can_end_a_header_or_a_text() -> None:
    """Run IDs, numbers, instants and the names that a job may have."""
    for value in VALUES.values():
        assert re.fullmatch(r"[A-Za-z0-9:._-]+", value)
    for name in ("a\r\nX: y", 'a"b', "a{b", "a b", "ä"):
        with pytest.raises(InvalidError):
            parse_job({"name": name, "task": {"http": {"url": "https://t.example/"}}})
