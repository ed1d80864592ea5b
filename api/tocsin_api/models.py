"""What the API takes and gives beside the job document. Outside camelCase, inside snake_case."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from tocsin.model.duration import Document, Whole
from tocsin.model.job import JobDocument, ScheduleField
from tocsin.model.status import RunOrigin, RunStatus

MAX_LIMIT = 1000


def _words(value: Any) -> Any:
    """A comma list, or the parameter given several times."""
    items = [value] if isinstance(value, str) else value
    return [word.strip() for item in items for word in str(item).split(",") if word.strip()]


Limit = Annotated[
    int,
    Field(50, ge=1, description="Items on a page; more than 1000 is taken as 1000.", examples=[50]),
]
Cursor = Annotated[str | None, Field(None, description="`nextCursor` of the page before.")]


def _as_text(value: Any) -> Any:
    if isinstance(value, str | None):
        return value
    raise PydanticCustomError(
        "datetime_type",
        "input should be an instant as text",
        {"fix": "write an instant such as 2026-03-08T02:30:00Z"},
    )


Instant = Annotated[AwareDatetime, BeforeValidator(_as_text)]


class JobQuery(Document):
    """Filters of the list of jobs; all hold together."""

    owner: str | None = Field(None, max_length=128, description="Jobs of this team.")
    name: str | None = Field(None, max_length=128, description="Name, with `*` for anything.")
    label: list[str] = Field(
        default_factory=list, max_length=16, description="`key=value`; repeat for several, all must hold."
    )
    paused: bool | None = Field(None, description="Only paused jobs, or only those that are not.")
    partial: bool = Field(False, description="Leave shards out that cannot be reached, and name them.")
    limit: Limit
    cursor: Cursor


class RunQuery(Document):
    """Filters of a job's history."""

    status: Annotated[list[RunStatus], BeforeValidator(_words)] = Field(
        default_factory=list, description="Comma list of states."
    )
    origin: Annotated[list[RunOrigin], BeforeValidator(_words)] = Field(
        default_factory=list, description="Comma list of `schedule`, `manual`, `rerun`."
    )
    from_: AwareDatetime | None = Field(None, alias="from", description="Nominal time at or after this.")
    to: AwareDatetime | None = Field(None, description="Nominal time before this.")
    limit: Limit
    cursor: Cursor


class ReasonBody(Document):
    """Why, for people."""

    reason: str | None = Field(
        None, max_length=500, description="Shown with the paused job or the cancelled run."
    )


class EmptyBody(Document):
    """Nothing to say."""


class RunBody(Document):
    """A manual run."""

    nominal_time: Instant | None = Field(
        None, description="The nominal time it stands for; the present instant when left out."
    )


class PreviewBody(Document):
    """A schedule to try out."""

    schedule: ScheduleField
    from_: Instant | None = Field(None, alias="from", description="Start; now when left out.")
    count: Whole = Field(10, ge=1, le=1000, description="How many nominal times.")


class _Out(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class JobOut(JobDocument):
    """A job: the canonical document and what the server knows about it."""

    job_id: str = Field(description="ID of the job.", examples=["job_0192f0c1a2b37d4e8f90a1b2c3d4e5f6"])
    version: int = Field(description="Rises with every change; also the ETag.")
    created_at: datetime
    updated_at: datetime
    next_run_at: datetime | None = Field(description="Next nominal time.")
    pause_reason: str | None


class AttemptOut(_Out):
    """One execution of a run."""

    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    error: str | None
    http_status: int | None
    worker: str | None


class OutputOut(_Out):
    """What the target answered: `text` when it can be decoded, else `base64`."""

    content_type: str | None
    size: int = Field(description="Bytes seen; more than given here when truncated.")
    truncated: bool
    text: str | None = None
    base64: str | None = None


class RunOut(_Out):
    """A run."""

    run_id: str
    job_id: str
    job_name: str
    nominal_time: datetime
    status: RunStatus
    origin: RunOrigin
    attempt: int
    reason: str | None
    error: str | None
    http_status: int | None
    created_at: datetime
    fired_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    lateness_sec: float | None = Field(description="Start minus nominal time and jitter.")
    duration_sec: float | None
    next_attempt_at: datetime | None = Field(description="When a waiting retry or manual run is due.")
    cancel_requested: bool
    rerun_of: str | None
    attempts: list[AttemptOut]
    output: OutputOut | None = Field(None, description="Only in GET /runs/{runId}.")


class JobPage(_Out):
    """A page of jobs."""

    items: list[JobOut]
    next_cursor: str | None
    incomplete: dict[str, str] | None = Field(
        None, description="Only with `partial`: missing shards, and why."
    )


class RunPage(_Out):
    """A page of runs."""

    items: list[RunOut]
    next_cursor: str | None


class PreviewOut(_Out):
    """What a schedule means."""

    times: list[datetime]
    description: str
    schedule: dict[str, JsonValue]


class OccurrenceOut(_Out):
    """What became, or will become, of a nominal time."""

    nominal_time: datetime
    outcome: Literal["run", "gap", "pending", "predicted"]
    run_id: str | None = None
    status: RunStatus | None = None
    reason: str | None = None
    last_time: datetime | None = Field(None, description="Last nominal time of a gap.")
    count: int | None = Field(None, description="Nominal times in a gap.")
    at_least: bool | None = None


class OccurrencePage(_Out):
    """Occurrences in the order of time."""

    items: list[OccurrenceOut]
    truncated: bool = Field(description="Whether the limit cut the list.")


class HealthOut(_Out):
    """The state of the process or of what it needs."""

    status: Literal["ok", "degraded", "unavailable"] = Field(description="degraded: some shards are away.")
    problems: list[str] = Field(default_factory=list)


class ErrorOut(_Out):
    """One field that needs fixing."""

    pointer: str
    code: str
    detail: str
    fix: str


class ProblemOut(_Out):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    fix: str
    errors: list[ErrorOut] | None = None
