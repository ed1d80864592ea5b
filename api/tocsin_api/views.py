"""Stored things as JSON."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any

from tocsin.ids import format_job_id, run_id
from tocsin.model.job import JobDocument
from tocsin.store.jobs import Job
from tocsin.store.occurrences import Occurrence
from tocsin.store.run_reading import Attempt, Run

# Schedules come as the three kinds together; what is empty here is the user's own and stays as it is.
_ORDER: dict[str, Any] = JobDocument.model_validate(
    {"name": "x", "task": {"http": {"url": "http://x/"}}}
).document() | {
    "schedule": dict.fromkeys(
        ("cron", "everySec", "anchor", "at", "timeZone", "gap", "fold", "start", "end", "jitterSec")
    )
}


def instant(when: datetime | None) -> str | None:
    """RFC 3339 in UTC with microseconds and `Z`."""
    return None if when is None else when.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def job_view(job: Job) -> dict[str, Any]:
    """A job's canonical document and what the server knows about it."""
    return {
        "jobId": format_job_id(job.job_id),
        **_ordered(job.document, _ORDER),
        "version": job.version,
        "createdAt": instant(job.created_at),
        "updatedAt": instant(job.updated_at),
        "nextRunAt": instant(job.next_run_at),
        "pauseReason": job.pause_reason,
    }


def _ordered(value: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    """Postgres keeps JSON objects in an order of its own; people read them in the order of the document."""
    known = {key: value[key] for key in order if key in value} | value
    return {
        key: _ordered(inner, order[key]) if isinstance(inner, dict) and order.get(key) else inner
        for key, inner in known.items()
    }


def run_view(run: Run, *, output: bool = False) -> dict[str, Any]:
    """A run; with its output in the answer about one run."""
    row = run.row
    begun, ended = row.started_at, row.finished_at
    view = {
        "runId": str(run.key),
        "jobId": format_job_id(run.key.job_id),
        "jobName": run.job_name,
        "nominalTime": instant(run.key.scheduled_at),
        "status": row.status,
        "origin": row.origin,
        "attempt": row.attempt,
        "reason": row.reason,
        "error": row.error,
        "httpStatus": row.http_status,
        "createdAt": instant(row.created_at),
        "firedAt": instant(row.fired_at),
        "startedAt": instant(begun),
        "finishedAt": instant(ended),
        "latenessSec": None if begun is None else _seconds(begun - run.key.scheduled_at - run.jitter),
        "durationSec": None if begun is None or ended is None else _seconds(ended - begun),
        "nextAttemptAt": instant(run.next_attempt_at),
        "cancelRequested": row.cancel_requested,
        "rerunOf": None if row.rerun_of is None else run_id(run.key.job_id, row.rerun_of),
        "attempts": [_attempt(attempt) for attempt in run.attempts],
    }
    if output:
        view["output"] = None if run.output is None else output_view(run.output)
    return view


def occurrence_view(one: Occurrence) -> dict[str, Any]:
    """A nominal time and what became of it; fields that say nothing are left out."""
    view = {
        "nominalTime": instant(one.nominal),
        "outcome": one.outcome,
        "runId": one.run_id,
        "status": one.status,
        "reason": one.reason,
        "lastTime": instant(one.last),
        "count": one.count,
        "atLeast": one.at_least,
    }
    return {key: value for key, value in view.items() if value is not None}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "startedAt": instant(attempt.started_at),
        "finishedAt": instant(attempt.finished_at),
        "reason": attempt.reason,
        "error": attempt.error,
        "httpStatus": attempt.http_status,
        "worker": attempt.worker,
    }


def output_view(row: Any) -> dict[str, Any]:
    """The kept part of an output: text when it is UTF-8 (a cut last character is left out), else base64."""
    content = bytes(row.content)
    view: dict[str, Any] = {
        "contentType": row.content_type,
        "size": row.size,
        "truncated": row.truncated,
    }
    text = _text(content, row.truncated)
    return view | ({"base64": base64.b64encode(content).decode()} if text is None else {"text": text})


def _text(content: bytes, truncated: bool) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if truncated and error.end == len(content) and len(content) - error.start < 4:
            return content[: error.start].decode("utf-8")
        return None


def _seconds(span: timedelta) -> float:
    return span / timedelta(seconds=1)
