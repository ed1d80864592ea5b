"""The task kind `celery`: a task of the team's own Celery app, sent by name.

The run succeeds when the broker has the message. With `completion: callback` it goes on until the team's worker says
how the task ended, for which its app calls `tocsin_tasks.track(app)`.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator
from pydantic_core import PydanticCustomError

from tocsin.model.duration import Document, Seconds, Whole

TASK_NAME = re.compile(r"[A-Za-z_][\w.\-]{0,254}(?<![.\-])", re.ASCII)
_LIMIT = 262_144  # characters of args and kwargs as JSON
# Set on every message; a job may not say otherwise.
_OURS = frozenset({"id", "task", "root_id", "parent_id", "group", "retries", "eta", "lang"}) | {
    "tocsin-callback-url",
    "tocsin-callback-token",
}


class CeleryTask(Document):
    """A Celery task, by name, with its arguments. The run ID is the task ID."""

    name: str = Field(description="Name of the task.", examples=["billing.close_day"], max_length=255)
    args: tuple[JsonValue, ...] = Field((), max_length=1000, description="Positional arguments.")
    kwargs: dict[str, JsonValue] = Field(
        default_factory=dict, max_length=1000, description="Named arguments."
    )
    queue: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="Queue; without one the app's routes decide, else `celery`.",
    )
    exchange: str | None = Field(None, max_length=255, description="Exchange, instead of the queue's.")
    routing_key: str | None = Field(None, max_length=255, description="Routing key, instead of the queue's.")
    priority: Whole | None = Field(None, ge=0, le=255, description="Priority of the message.")
    expires_sec: Seconds | None = Field(
        None,
        gt=0,
        le=31_536_000,
        description="A worker discards the task when it comes to it later than this.",
    )
    headers: dict[str, JsonValue] = Field(default_factory=dict, max_length=64, description="Further headers.")
    completion: Literal["broker", "callback"] = Field(
        "broker",
        description="`broker`: the run has succeeded when the broker has the message. `callback`: when the task has,"
        " as told by the team's app, which calls `tocsin_tasks.track(app)`.",
    )

    @field_validator("name")
    @classmethod
    def _a_name(cls, name: str) -> str:
        if not TASK_NAME.fullmatch(name):
            raise PydanticCustomError(
                "celery_task_name",
                "{name} is no name of a task",
                {"name": name[:80], "fix": "write the task's name such as billing.close_day"},
            )
        return name

    @field_validator("args", "kwargs")
    @classmethod
    def _not_too_large(cls, value: Any) -> Any:
        if len(str(value)) > _LIMIT:
            raise PydanticCustomError(
                "celery_arguments_size",
                "the arguments are longer than {limit} characters",
                {"limit": _LIMIT, "fix": "store the data and pass its key"},
            )
        return value

    @field_validator("headers")
    @classmethod
    def _theirs(cls, headers: dict[str, Any]) -> dict[str, Any]:
        for name in headers:
            if name in _OURS:
                raise PydanticCustomError(
                    "celery_header_reserved",
                    "header {name} is set by tocsin",
                    {"name": name, "fix": f"remove {name}"},
                )
        return headers
