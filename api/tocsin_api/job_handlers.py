"""Jobs over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy import Connection

from tocsin.errors import InvalidError, Problem
from tocsin.ids import format_job_id, partition_of_name
from tocsin.model.job import JobDocument
from tocsin.model.merge import merge_job
from tocsin.store import cursors, job_edits, jobs, listing
from tocsin.store.jobs import Job
from tocsin_api.answers import Answer, ApiError, as_json, etag
from tocsin_api.calls import Call
from tocsin_api.containers import check_container
from tocsin_api.models import MAX_LIMIT, JobQuery
from tocsin_api.queries import DeleteQuery, WriteQuery
from tocsin_api.targets import check_target
from tocsin_api.views import job_view

_PARTIAL = "send the request again after the time in Retry-After, or with partial=true for what the other shards have"


def create(call: Call) -> Answer:
    """POST /jobs; with `dryRun` the job is made and taken back in one transaction, and no key is used up."""
    doc: JobDocument = call.body
    check_container(call.settings.policy, doc.document())
    check_target(call.settings.egress, doc.document())
    namespace = call.settings.namespace
    partition = partition_of_name(namespace, doc.name)
    if call.query_as(WriteQuery).dry_run:
        return call.read(partition, lambda conn: _undone(conn, lambda: jobs.create(conn, doc, namespace)))
    return call.effect(partition, lambda conn: _created(jobs.create(conn, doc, namespace)), bound=True)


def _undone(conn: Connection, write: Callable[[], Job]) -> Answer:
    """The answer of a write that is taken back."""
    with conn.begin_nested() as savepoint:
        job = write()
        savepoint.rollback()
    return as_json(job_view(job))


def _created(job: Job) -> Answer:
    headers = {"location": f"/v1/jobs/{format_job_id(job.job_id)}", "etag": etag(job.version)}
    return as_json(job_view(job), 201, headers)


def _answer(job: Job) -> Answer:
    return as_json(job_view(job), headers={"etag": etag(job.version)})


def read(call: Call) -> Answer:
    """GET /jobs/{jobId}"""
    job = call.read(call.job.partition, lambda conn: jobs.get(conn, call.job))
    if call.unchanged(job.version):
        return Answer(status=304, headers={"etag": etag(job.version)})
    return _answer(job)


def patch(call: Call) -> Answer:
    """PATCH /jobs/{jobId}: a merge patch; the merged document is validated as a whole."""
    changes, expected = call.body, call.expected()
    dry = call.query_as(WriteQuery).dry_run
    if not isinstance(changes, dict):
        raise InvalidError(
            [
                Problem(
                    pointer="#",
                    code="merge_patch",
                    detail="a merge patch of a job is an object",
                    fix='send the fields to change, such as {"timeout": "20m"}',
                )
            ]
        )

    def merged(document: dict[str, Any]) -> Any:
        return merge_job(document, changes)

    def edited(conn: Connection) -> Job:
        job = job_edits.edit(conn, call.job, merged, expected)
        # Any other edit stays possible when a policy has become narrower.
        if {"task", "owner"} & changes.keys():
            check_container(call.settings.policy, job.document)
        if "task" in changes:
            check_target(call.settings.egress, job.document)
        return job

    def work(conn: Connection) -> Answer:
        return _undone(conn, lambda: edited(conn)) if dry else _answer(edited(conn))

    return call.read(call.job.partition, work)


def pause(call: Call) -> Answer:
    """POST /jobs/{jobId}/pause"""
    return _set_paused(call, True)


def resume(call: Call) -> Answer:
    """POST /jobs/{jobId}/resume"""
    return _set_paused(call, False)


def _set_paused(call: Call, paused: bool) -> Answer:
    expected, ref = call.expected(), call.job

    def work(conn: Connection) -> Answer:
        return _answer(job_edits.set_paused(conn, ref, paused, call.body.reason, expected))

    return call.effect(ref.partition, work)


def delete(call: Call) -> Answer:
    """DELETE /jobs/{jobId}"""
    cancel = call.query_as(DeleteQuery).runs == "cancel"
    expected = call.expected()
    call.read(
        call.job.partition,
        lambda conn: job_edits.remove(conn, call.job, expected, cancel_runs=cancel),
    )
    return Answer(status=204)


def index(call: Call) -> Answer:
    """GET /jobs: newest first."""
    query = call.query_as(JobQuery)
    wanted = listing.JobFilter(
        namespace=call.settings.namespace,
        name=query.name,
        owner=query.owner,
        paused=query.paused,
        labels=_labels(query.label),
    )
    filters = query.model_dump(mode="json", exclude={"limit", "cursor", "partial"}) | {"list": "jobs"}
    limit = min(query.limit, MAX_LIMIT)
    before = None if query.cursor is None else _uuid(cursors.decode(query.cursor, filters))
    found, missing = listing.partial(call.settings.shards, wanted, before, limit + 1)
    if missing and not query.partial:
        raise ApiError("shard_unavailable", missing[0].detail, fix=_PARTIAL)
    cursor = cursors.encode(found[limit - 1].job_id.hex, filters) if len(found) > limit else None
    incomplete = {one.shard: one.detail for one in missing}
    more = {"incomplete": incomplete} if query.partial else {}
    return page(call, [job_view(job) for job in found[:limit]], cursor, more)


def page(
    call: Call, items: list[dict[str, Any]], cursor: str | None, more: dict[str, Any] | None = None
) -> Answer:
    """A page, with the link to the next one; `more` goes beside the items."""
    headers = {}
    if cursor is not None:
        query = [(name, value) for name, value in call.url_query if name != "cursor"]
        headers["link"] = f'<{call.url_path}?{urlencode([*query, ("cursor", cursor)])}>; rel="next"'
    return as_json({"items": items, "nextCursor": cursor, **(more or {})}, headers=headers)


def _labels(pairs: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name or labels.get(name, value) != value:
            raise InvalidError(
                [
                    Problem(
                        pointer="?label",
                        code="label_filter",
                        detail=f"{pair[:80]!r} is no label filter that can hold",
                        fix="write label=key=value, each key once",
                    )
                ]
            )
        labels[name] = value
    return labels


def _uuid(text: str) -> UUID:
    try:
        return UUID(hex=text)
    except ValueError:
        raise ApiError("bad_cursor", "this is no cursor") from None
