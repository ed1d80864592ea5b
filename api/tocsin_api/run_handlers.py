"""Runs over HTTP."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from tocsin.clock import from_micros, to_micros
from tocsin.ids import RunKey
from tocsin.store import cursors, jobs, run_cancel, run_reading, runs
from tocsin.store import occurrences as store
from tocsin.store.transactions import database_now
from tocsin_api.answers import Answer, ApiError, as_json
from tocsin_api.calls import Call
from tocsin_api.job_handlers import page
from tocsin_api.models import MAX_LIMIT, RunQuery
from tocsin_api.queries import SpanQuery
from tocsin_api.views import occurrence_view, run_view

_DAY = timedelta(days=1)


def start(call: Call) -> Answer:
    """POST /jobs/{jobId}/runs"""
    ref, nominal = call.job, call.body.nominal_time

    def work(conn: Connection) -> Answer:
        return _accepted(conn, call, runs.start(conn, ref, nominal=nominal, retention=call.retention))

    return call.effect(ref.partition, work)


def retry(call: Call) -> Answer:
    """POST /runs/{runId}/retry"""
    key = call.run

    def work(conn: Connection) -> Answer:
        _visible(conn, call, key)
        return _accepted(conn, call, runs.rerun(conn, key))

    return call.effect(key.partition, work)


def cancel(call: Call) -> Answer:
    """POST /runs/{runId}/cancel"""
    key = call.run

    def work(conn: Connection) -> Answer:
        _visible(conn, call, key)
        run_cancel.cancel(conn, key, call.body.reason)
        return _accepted(conn, call, key)

    return call.effect(key.partition, work)


def _visible(conn: Connection, call: Call, key: RunKey) -> None:
    """Raise NotFoundError or GoneError for a run that this caller cannot see."""
    run_reading.get(conn, key, call.settings.namespace, call.retention)


def _accepted(conn: Connection, call: Call, key: RunKey) -> Answer:
    run = run_reading.get(conn, key, call.settings.namespace, call.retention)
    return as_json(run_view(run), 202, {"location": f"/v1/runs/{key}"})


def read(call: Call) -> Answer:
    """GET /runs/{runId}"""
    key = call.run
    run = call.read(
        key.partition,
        lambda conn: run_reading.get(conn, key, call.settings.namespace, call.retention),
    )
    answer = as_json(run_view(run, output=True))
    return Answer(body=answer.body, final=run.final)


def history(call: Call) -> Answer:
    """GET /jobs/{jobId}/runs: newest nominal time first; also of a deleted job, by its ID."""
    query = call.query_as(RunQuery)
    limit = min(query.limit, MAX_LIMIT)
    filters = query.model_dump(mode="json", exclude={"limit", "cursor"})
    ref = call.job

    def work(conn: Connection) -> Answer:
        job = jobs.get(conn, ref, deleted=True)
        mine = filters | {"list": job.job_id.hex}
        before = query.to
        if query.cursor is not None:
            before = from_micros(_micros(cursors.decode(query.cursor, mine)))
        wanted = run_reading.RunFilter(
            statuses=tuple(query.status), origins=tuple(query.origin), start=query.from_, before=before
        )
        found = run_reading.history(conn, job.job_id, wanted, limit + 1)
        cursor = None
        if len(found) > limit:
            cursor = cursors.encode(str(to_micros(found[limit - 1].key.scheduled_at)), mine)
        return page(call, [run_view(run) for run in found[:limit]], cursor)

    return call.read(ref.partition, work)


def occurrences(call: Call) -> Answer:
    """GET /jobs/{jobId}/occurrences"""
    query = call.query_as(SpanQuery)
    limit = min(query.limit, MAX_LIMIT)

    def work(conn: Connection) -> Answer:
        job = jobs.get(conn, call.job, deleted=True)
        now = database_now(conn)
        start, end = query.from_ or now - _DAY, query.to or now + _DAY
        found, more = store.between(conn, job, start, end, limit)
        return as_json({"items": [occurrence_view(one) for one in found], "truncated": more})

    return call.read(call.job.partition, work)


def _micros(text: str) -> int:
    if not text.isdecimal() or len(text) > 17:
        raise ApiError("bad_cursor", "this is no cursor")
    return int(text)
