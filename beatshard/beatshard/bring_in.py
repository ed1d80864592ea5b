"""Brings a `beat_schedule` in as jobs: creates, changes and removes what differs, and nothing else.

Protocol: the jobs of an app carry the labels `source=beat` and `app=<name>`; others are never touched. Each job is
one transaction, and every step may be repeated, so that several starters at once end in the same jobs. A job that
somebody paused stays paused. An interval that has not changed keeps its anchor, so a restart moves nothing.

Weakness: when two versions of an app start in turn, the last one decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from beatshard.entries import SOURCE
from tocsin.errors import ConflictError, NotFoundError
from tocsin.ids import partition_of_name
from tocsin.model.job import JobDocument
from tocsin.model.problems import parse_job
from tocsin.store import job_edits, jobs, listing, transactions
from tocsin.store.jobs import Job, JobRef
from tocsin.store.shard_map import ShardMap

_PAGE = 500


@dataclass(slots=True, kw_only=True)
class BroughtIn:
    """How many jobs were made, changed, removed, and left as they were."""

    created: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0


def bring_in(shards: ShardMap, namespace: str, app: str, documents: Iterable[dict[str, Any]]) -> BroughtIn:
    """Make the app's jobs equal to these documents.

    Raises InvalidError for a document that is no job (nothing is written then), ConflictError `name_taken` when a
    job of another origin has the name, ShardUnavailableError.
    """
    wanted = {each["name"]: parse_job(each) for each in documents}
    before = {job.name: job for job in _existing(shards, namespace, app)}
    done = BroughtIn()
    for name, document in wanted.items():
        if name not in before and _create(shards, namespace, document):
            done.created += 1
        elif _change(shards, namespace, app, document, before.get(name)):
            done.changed += 1
        else:
            done.kept += 1
    for name in before.keys() - wanted.keys():
        done.removed += _remove(shards, namespace, name)
    return done


def _existing(shards: ShardMap, namespace: str, app: str) -> list[Job]:
    chosen = listing.JobFilter(namespace=namespace, labels={"source": SOURCE, "app": app})
    found: list[Job] = []
    last: UUID | None = None
    while page := listing.newest(shards, chosen, last, _PAGE):
        found += page
        last = page[-1].job_id
    return found


def _ref(namespace: str, name: str) -> JobRef:
    return JobRef(partition=partition_of_name(namespace, name), namespace=namespace, name=name)


def _create(shards: ShardMap, namespace: str, document: JobDocument) -> bool:
    def work(conn: Connection, _: object) -> Job:
        return jobs.create(conn, document, namespace)

    try:
        transactions.at(shards, partition_of_name(namespace, document.name), work)
    except ConflictError:
        return False  # another starter was first, or somebody has the name
    return True


def _change(shards: ShardMap, namespace: str, app: str, document: JobDocument, before: Job | None) -> bool:
    if before is not None and _merged(before.document, document) == before.document:
        return False
    ref = _ref(namespace, document.name)

    def change(stored: dict[str, Any]) -> dict[str, Any]:
        if {"source": SOURCE, "app": app}.items() - stored["labels"].items():
            raise ConflictError(
                f"a job named {document.name!r} exists already, and is not of this app",
                code="name_taken",
                fix=f"rename the entry, or delete the job: tocsin job delete {document.name}",
            )
        return _merged(stored, document)

    def work(conn: Connection, _: object) -> bool:
        version = jobs.get(conn, ref).version
        return job_edits.edit(conn, ref, change).version != version

    return transactions.at(shards, ref.partition, work)


def _merged(stored: dict[str, Any], document: JobDocument) -> dict[str, Any]:
    """The wanted document with what a restart must not change."""
    new = document.document()
    new["paused"] = stored["paused"]
    old_schedule, schedule = stored["schedule"] or {}, new["schedule"] or {}
    if "everySec" in schedule and schedule["everySec"] == old_schedule.get("everySec"):
        schedule["anchor"] = old_schedule["anchor"]
    return new


def _remove(shards: ShardMap, namespace: str, name: str) -> int:
    ref = _ref(namespace, name)

    def work(conn: Connection, _: object) -> bool:
        return job_edits.remove(conn, ref) is not None

    try:
        return int(transactions.at(shards, ref.partition, work))
    except NotFoundError:
        return 0
