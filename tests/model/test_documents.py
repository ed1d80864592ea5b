"""The job document: shorthands in, canonical form out, and a refusal that says what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tocsin.errors import InvalidError
from tocsin.model.job import JobDocument
from tocsin.settings import load
from tocsin.settings_page import render
from tocsin.store.shards import parse_shards

HTTP = {"http": {"url": "https://example.org/run"}}


def job(**more: Any) -> JobDocument:
    return JobDocument.model_validate({"name": "nightly", "task": HTTP, **more})


def test_shorthands_become_the_canonical_object() -> None:
    doc = job(schedule="0 2 * * *", concurrency="skip", catchUp="all", timeout="20m").document()
    assert doc["schedule"]["cron"] == "0 2 * * *"
    assert doc["schedule"]["timeZone"] == "UTC"
    assert doc["concurrency"] == {"overlap": "skip", "max": 1, "queueLimit": 100}
    assert doc["catchUp"] == {"mode": "all", "windowSec": 600}
    assert doc["timeoutSec"] == 1200
    assert "timeout" not in doc


def test_the_canonical_form_is_its_own_canonical_form() -> None:
    doc = job(
        schedule={"every": "90s", "jitter": "5s"}, labels={"team": "billing"}, timeout="1h30m"
    ).document()
    assert JobDocument.model_validate(doc).document() == doc


def test_a_job_without_a_schedule_is_manual() -> None:
    assert job().document()["schedule"] is None


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"retryPolcy": {}}, "extra_forbidden"),
        ({"schedule": "0 25 * * *"}, "cron_field_range"),
        ({"schedule": {"cron": "0 2 * * *", "timeZone": "Europe/Berlim"}}, "time_zone_unknown"),
        ({"timeoutSec": -1}, "greater_than"),
        ({"timeoutSec": float("nan")}, "finite_number"),
        ({"timeout": "soon"}, "duration_syntax"),
        ({"timeout": 30}, "invalid_type"),
        ({"timeout": "30s", "timeoutSec": 30}, "duration_twice"),
        ({"task": {}}, "task_kind"),
        ({"task": {"http": {"url": "x"}, "docker": {}}}, "task_kind"),
        ({"task": {"celery": {"name": "a"}, "http": {"url": "https://x.org"}}}, "task_kind"),
        ({"task": {"celery": None}}, "task_kind"),
        ({"task": "no name"}, "task_kind"),
        ({"task": {"celery": {"name": "no name"}}}, "celery_task_name"),
        ({"task": {"celery": {"name": "a", "headers": {"id": "1"}}}}, "celery_header_reserved"),
        ({"task": {"celery": {"name": "a", "args": ["x" * 300_000]}}}, "celery_arguments_size"),
        ({"task": {"celery": {"name": "a", "countdown": 1}}}, "extra_forbidden"),
        ({"task": {"http": {"url": "ftp://example.org"}}}, "http_url"),
        ({"task": {"http": {"url": "https://me:secret@example.org"}}}, "http_url_credentials"),
        ({"task": {"http": {"url": "https://x.org", "headers": {"a b": "c"}}}}, "http_header"),
        ({"task": {"http": {"url": "https://x.org", "headers": {"a": "b\r\nc: d"}}}}, "http_header"),
        (
            {"task": {"http": {"url": "https://x.org", "headers": {"Idempotency-Key": "1"}}}},
            "http_header_reserved",
        ),
        ({"task": {"http": {"url": "https://x.org", "body": "a", "json": {}}}}, "http_two_bodies"),
        ({"task": {"http": {"url": "https://x.org", "expectStatus": [700]}}}, "http_expect_status"),
        ({"name": "no spaces"}, "string_pattern_mismatch"),
        ({"name": ""}, "string_pattern_mismatch"),
        ({"labels": {"": "x"}}, "label_size"),
        ({"concurrency": "maybe"}, "enum"),
    ],
)
def test_refusals(more: dict[str, Any], code: str) -> None:
    with pytest.raises(ValidationError) as caught:
        job(**more)
    assert code in {error["type"] for error in caught.value.errors()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://x", "postgresql://"),
        ("0-500=postgresql://a/x,502-1023=postgresql://b/x", "502-1023"),
        ("0-511=postgresql://a/x", "end at 511"),
        ("0-511=postgresql://a/x,500-1023=postgresql://b/x", "500-1023"),
    ],
)
def test_a_shard_map_must_cover_every_partition_once(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_shards(text)


def test_a_shard_map_finds_the_shard_of_each_partition() -> None:
    shards = parse_shards("512-1023=postgresql://b/x, 0-511=postgresql://a/x?options=-c%20a=1,b")
    assert [shards.shard_of(p).url for p in (0, 511, 512, 1023)] == [
        "postgresql://a/x?options=-c%20a=1,b",
        "postgresql://a/x?options=-c%20a=1,b",
        "postgresql://b/x",
        "postgresql://b/x",
    ]
    assert {s.name: p for s, p in shards.group([1, 600, 2]).items()} == {"0-511": [1, 2], "512-1023": [600]}


def test_a_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_RETENTION_DAYS", "often")
    with pytest.raises(InvalidError, match="TOCSIN_RETENTION_DAYS"):
        load()


def test_heartbeats_must_fit_into_the_lease() -> None:
    with pytest.raises(InvalidError, match="TOCSIN_HEARTBEAT_INTERVAL"):
        load(heartbeat_interval=20, run_lease=30)


def test_the_settings_page_is_current() -> None:
    """Red when a setting changed: run `python -m tocsin.settings_page > docs/settings.md`."""
    page = Path(__file__).parents[2] / "docs/settings.md"
    assert page.read_text(encoding="utf-8") == render()


def test_a_celery_task_by_its_name_alone() -> None:
    doc = JobDocument.model_validate({"name": "job", "task": "billing.close_day"})
    assert doc.task.kind == "celery"
    assert doc.document()["task"]["celery"]["name"] == "billing.close_day"
    assert list(doc.document()["task"]) == ["celery"]
