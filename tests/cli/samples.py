"""Recorded jobs and runs: the API's JSON, made from the job model so that it cannot drift from it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from tocsin.ids import format_job_id, run_id
from tocsin.model.job import JobDocument

JOB_UUID = UUID("019d0000-0000-7000-8000-000000000001")
JOB_ID = format_job_id(JOB_UUID)
NIGHTLY = {
    "name": "nightly-close",
    "owner": "billing",
    "schedule": {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"},
    "task": {"http": {"url": "https://billing.internal/close"}},
}


def job(**changes: Any) -> dict[str, Any]:
    """The answer of GET /jobs/{id}; `changes` are fields of the document or of the answer."""
    answer: dict[str, Any] = {
        "jobId": JOB_ID,
        "version": 7,
        "createdAt": "2026-03-01T08:00:00Z",
        "updatedAt": "2026-03-20T09:15:00Z",
        "nextRunAt": "2026-03-29T01:00:00Z",
        "pauseReason": None,
    }
    document = NIGHTLY | {key: value for key, value in changes.items() if key not in answer}
    answer |= {key: value for key, value in changes.items() if key in answer}
    return JobDocument.model_validate(document).document() | answer


def run(nominal: str = "2026-03-28T01:30:00Z", **changes: Any) -> dict[str, Any]:
    """The answer of GET /runs/{id}."""
    answer: dict[str, Any] = {
        "runId": run_id(JOB_UUID, datetime.fromisoformat(nominal)),
        "jobId": JOB_ID,
        "jobName": "nightly-close",
        "nominalTime": nominal,
        "status": "succeeded",
        "origin": "schedule",
        "attempt": 1,
        "reason": None,
        "error": None,
        "httpStatus": 200,
        "createdAt": nominal,
        "firedAt": nominal,
        "startedAt": nominal,
        "finishedAt": "2026-03-28T01:34:12Z",
        "latenessSec": 0.08,
        "durationSec": 252.0,
        "nextAttemptAt": None,
        "attempts": [],
        "output": None,
    }
    return answer | changes
