"""The table of operations: routes, validation and the OpenAPI document are all made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from tocsin.model.job import JobDocument
from tocsin_api import callback_handlers as callback
from tocsin_api import job_handlers as job
from tocsin_api import models as m
from tocsin_api import other_handlers as other
from tocsin_api import run_handlers as run
from tocsin_api.answers import Answer
from tocsin_api.calls import Call
from tocsin_api.queries import DeleteQuery, SpanQuery, WaitQuery, WriteQuery

Handler = Callable[[Call], Answer]
PATCH = "merge-patch"  # a body that is checked after it has been merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. `problems` are the codes it answers beside those that any request can meet."""

    name: str
    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    status: int = 200
    request: type[BaseModel] | str | None = None
    query: type[BaseModel] | None = None
    response: type[BaseModel] | None = None
    problems: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()  # of the answer
    keyed: bool = False  # takes an Idempotency-Key
    matched: bool = False  # takes If-Match
    token: bool = False  # takes Tocsin-Callback-Token
    waits: bool = False  # `waitSec` asks again until the answer is final

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


_KEYED = ("key_in_flight", "key_reused", "bad_header")
_JOB: dict[str, Any] = {"tag": "jobs"}
_RUN: dict[str, Any] = {"tag": "runs"}


@dataclass(frozen=True, slots=True)
class _Table:
    rows: list[Operation] = field(default_factory=list)

    def add(self, name: str, method: str, path: str, handler: Handler, summary: str, **more: Any) -> None:
        self.rows.append(
            Operation(name=name, method=method, path=path, handler=handler, summary=summary, **more)
        )


def _build() -> tuple[Operation, ...]:
    table = _Table()
    _add_jobs(table.add)
    _add_runs(table.add)
    add = table.add
    add(
        "previewSchedule", "POST", "/schedules/preview", other.preview, "Say when a schedule fires",
        tag="schedules", request=m.PreviewBody, response=m.PreviewOut,
    )  # fmt: skip
    add("explainProblem", "GET", "/problems/{code}", other.explain, "Explain a kind of problem", tag="server")
    add("health", "GET", "/healthz", other.health, "The process answers", tag="server", response=m.HealthOut)
    add("ready", "GET", "/readyz", other.ready, "The shards answer", tag="server", response=m.HealthOut)
    return tuple(table.rows)


def _add_jobs(add: Callable[..., None]) -> None:
    one = "/jobs/{job_id}"
    add(
        "createJob", "POST", "/jobs", job.create, "Create a job", **_JOB, status=201, request=JobDocument,
        query=WriteQuery, response=m.JobOut, problems=("name_taken", *_KEYED), headers=("Location", "ETag"),
        keyed=True,
    )  # fmt: skip
    add(
        "listJobs", "GET", "/jobs", job.index, "List jobs, newest first", **_JOB, query=m.JobQuery,
        response=m.JobPage, problems=("bad_cursor",), headers=("Link",),
    )  # fmt: skip
    add(
        "getJob", "GET", one, job.read, "Read a job", **_JOB, response=m.JobOut,
        problems=("not_found", "bad_header"), headers=("ETag",),
    )  # fmt: skip
    add(
        "updateJob", "PATCH", one, job.patch, "Change a job (merge patch)", **_JOB, request=PATCH,
        query=WriteQuery, response=m.JobOut, problems=("not_found", "stale_version", "bad_header"),
        headers=("ETag",), matched=True,
    )  # fmt: skip
    add(
        "deleteJob", "DELETE", one, job.delete, "Delete a job and its trigger", **_JOB, status=204,
        query=DeleteQuery, problems=("not_found", "stale_version", "bad_header"), matched=True,
    )  # fmt: skip
    for name, handler, words in (
        ("pause", job.pause, "Pause a job"),
        ("resume", job.resume, "Resume a job with the next nominal time after now"),
    ):
        add(
            f"{name}Job", "POST", f"{one}/{name}", handler, words, **_JOB, request=m.ReasonBody,
            response=m.JobOut, problems=("not_found", "stale_version", *_KEYED), headers=("ETag",),
            keyed=True, matched=True,
        )  # fmt: skip


def _add_runs(add: Callable[..., None]) -> None:
    add(
        "startRun", "POST", "/jobs/{job_id}/runs", run.start, "Start a run by hand", **_RUN, status=202,
        request=m.RunBody, response=m.RunOut, problems=("not_found", "run_exists", *_KEYED),
        headers=("Location",), keyed=True,
    )  # fmt: skip
    add(
        "listRuns", "GET", "/jobs/{job_id}/runs", run.history, "List a job's runs, newest first", **_RUN,
        query=m.RunQuery, response=m.RunPage, problems=("not_found", "bad_cursor"), headers=("Link",),
    )  # fmt: skip
    add(
        "listOccurrences", "GET", "/jobs/{job_id}/occurrences", run.occurrences,
        "Say what became of a job's nominal times, and which come", **_RUN, query=SpanQuery,
        response=m.OccurrencePage, problems=("not_found",),
    )  # fmt: skip
    add(
        "getRun", "GET", "/runs/{run_id}", run.read, "Read a run, its attempts and its output", **_RUN,
        query=WaitQuery, response=m.RunOut, problems=("not_found", "gone"), waits=True,
    )  # fmt: skip
    for name, handler, words, conflict, body in (
        ("retry", run.retry, "Run it again, as a new run", "run_not_final", m.EmptyBody),
        ("cancel", run.cancel, "Cancel a run", "run_final", m.ReasonBody),
    ):
        add(
            f"{name}Run", "POST", f"/runs/{{run_id}}/{name}", handler, words, **_RUN, status=202,
            request=body, response=m.RunOut, problems=("not_found", "gone", conflict, *_KEYED),
            headers=("Location",), keyed=True,
        )  # fmt: skip
    add(
        "completeRun", "POST", "/runs/{run_id}/complete", callback.complete,
        "Say how a run ended, with the token of its call", **_RUN, status=204, request=callback.CompletionBody,
        problems=("bad_token", "not_found", *_KEYED), keyed=True, token=True,
    )  # fmt: skip


OPERATIONS = _build()
