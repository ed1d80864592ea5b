"""The job document: the body of `POST /jobs`, the job file and `-o yaml` are this one model.

`JobDocument` accepts the shorthands people write (`schedule: "0 2 * * *"`, `concurrency: skip`) and always
gives back the canonical form with the defaults filled in.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tocsin import schedules
from tocsin.errors import ScheduleError
from tocsin.model.duration import Document, Flag, Seconds, Whole
from tocsin.model.schedule_schema import SCHEDULE_SCHEMA
from tocsin.model.status import CatchUp, Overlap, Tier
from tocsin.model.task import Task


def _parse_schedule(value: Any) -> Any:
    if value is None or isinstance(value, schedules.Schedule):
        return value
    try:
        return schedules.parse(value)
    except ScheduleError as error:
        raise PydanticCustomError(
            error.code,
            "{detail}",
            {"detail": error.detail, "fix": error.fix, "field": error.field},
        ) from None


ScheduleField = Annotated[
    schedules.Schedule,
    BeforeValidator(_parse_schedule),
    PlainSerializer(schedules.canonical, return_type=dict),
    WithJsonSchema(SCHEDULE_SCHEMA),
]


Status = Annotated[int, Field(strict=True, ge=100, le=599)]


class RetryPolicy(Document):
    """How often and when a failed attempt is tried again: exponential backoff with a cap."""

    max_attempts: Whole = Field(3, ge=1, le=100, description="Attempts in all, the first included.")
    initial_sec: Seconds = Field(10.0, ge=0, le=86_400, description="Backoff before the second attempt.")
    factor: float = Field(
        2.0, strict=True, ge=1, le=10, description="Each further backoff is this many times the last."
    )
    max_sec: Seconds = Field(600.0, ge=0, le=86_400, description="No backoff is longer than this.")
    jitter: Literal["full", "none"] = Field(
        "full", description="`full` draws each backoff between 0 and its value."
    )
    retry_on: tuple[Status, ...] = Field(
        (), max_length=100, description="HTTP statuses to retry as well (408, 425, 429 and 5xx always are)."
    )
    no_retry_on: tuple[Status, ...] = Field((), max_length=100, description="HTTP statuses never to retry.")

    @model_validator(mode="after")
    def _makes_sense(self) -> RetryPolicy:
        if both := sorted(set(self.retry_on) & set(self.no_retry_on)):
            raise PydanticCustomError(
                "retry_contradiction",
                "{status} is in retryOn and in noRetryOn",
                {"status": str(both[0]), "at": "noRetryOn", "fix": "keep it in one of the two"},
            )
        if self.initial_sec > self.max_sec:
            raise PydanticCustomError(
                "retry_backoff",
                "the first backoff ({first} s) is longer than the longest ({most} s)",
                {
                    "first": f"{self.initial_sec:g}",
                    "most": f"{self.max_sec:g}",
                    "at": "max" if "max_sec" in self.model_fields_set else "initial",
                    "fix": "write a max that is at least initial",
                },
            )
        return self


class Concurrency(Document):
    """What happens when a run is due while others of the same job are still going."""

    overlap: Overlap = Field(Overlap.ALLOW, description="`allow`, `skip` or `queue`.")
    max: Whole = Field(1, ge=1, le=1000, description="Runs at once under `skip` and `queue`.")
    queue_limit: Whole = Field(
        100, ge=1, le=10_000, description="Runs that may wait under `queue`; more are skipped."
    )


class CatchUpPolicy(Document):
    """What happens to nominal times missed in an outage longer than the window."""

    mode: CatchUp = Field(CatchUp.LATEST, description="`all`, `latest` or `none`.")
    window_sec: Seconds = Field(
        600.0,
        ge=10,
        le=31_536_000,
        description="An outage no longer than this loses nothing, whatever the mode.",
    )


DEFAULT_POOL = "default"
# A letter first: a number in a queue's name is a slot.
POOL_PATTERN = r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$"
ID_PATTERN = re.compile(r"(job|run)_[0-9a-f]{32}.*")
NAME_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$"


class JobDocument(Document):
    """A job: what to run, when, how often to try, and what to do when runs overlap or were missed."""

    api_version: Literal["tocsin/v1"] = Field("tocsin/v1", description="Version of the document.")
    kind: Literal["Job"] = Field("Job", description="Kind of the document.")
    name: str = Field(
        pattern=NAME_PATTERN,
        description="Unique in its namespace; cannot be changed.",
        examples=["nightly-close"],
    )
    owner: str = Field(
        "default", min_length=1, max_length=128, description="The team that answers for the job."
    )
    description: str = Field("", max_length=2000, description="For people.")
    labels: dict[str, str] = Field(
        default_factory=dict, max_length=32, description="Free labels to filter by."
    )
    schedule: ScheduleField | None = Field(
        None, description="When to run; a job without one runs by hand only."
    )
    task: Task = Field(description="What to run; exactly one kind.")
    timeout_sec: Seconds = Field(300.0, gt=0, le=86_400, description="Total time of one attempt.")
    retry_policy: RetryPolicy = Field(default_factory=RetryPolicy)
    concurrency: Concurrency = Field(default_factory=Concurrency)
    catch_up: CatchUpPolicy = Field(default_factory=CatchUpPolicy)
    tier: Tier = Field(Tier.DEFAULT, description="Priority class: `critical`, `default` or `batch`.")
    pool: str = Field(
        DEFAULT_POOL,
        pattern=POOL_PATTERN,
        description="Workers that serve this pool execute the job (`tocsin worker --pool`).",
    )
    paused: Flag = Field(False, description="A paused job makes no scheduled runs.")

    @model_validator(mode="before")
    @classmethod
    def _shorthands(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for name, key in (("concurrency", "overlap"), ("catchUp", "mode")):
            if isinstance(value.get(name), str):
                value[name] = {key: value[name]}
        return value

    @field_validator("name")
    @classmethod
    def _no_id(cls, name: str) -> str:
        if ID_PATTERN.fullmatch(name):
            raise PydanticCustomError(
                "name_like_id",
                "a name that reads like an ID would be taken for one",
                {"fix": "choose a name that does not begin with job_ or run_ and go on like an ID"},
            )
        return name

    @field_validator("labels")
    @classmethod
    def _short_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        if any(not key or len(key) > 63 or len(text) > 255 for key, text in labels.items()):
            raise PydanticCustomError(
                "label_size",
                "a label is too long or has no name",
                {"fix": "use names of 1 to 63 and values of at most 255 characters"},
            )
        return labels

    def document(self) -> dict[str, Any]:
        """The canonical JSON form, every default written out."""
        return self.model_dump(mode="json")
