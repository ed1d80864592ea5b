"""The task of a job: exactly one kind of work."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import (
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tocsin.model.celery_task import TASK_NAME, CeleryTask
from tocsin.model.docker_task import DockerTask
from tocsin.model.duration import Document, Flag, Whole
from tocsin.model.target_url import LONGEST_URL, UrlFault, url_fault
from tocsin.model.template import check_json_template, check_template

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")  # RFC 9110, 5.6.2
_STATUS = re.compile(r"[1-5]xx|[1-5]\d\d")
# Set by the runner, with all of `Tocsin-*`; a job may not say otherwise (docs/http-jobs.md).
RESERVED_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})


class HttpTask(Document):
    """An HTTP call. Success is an expected status within the job's timeout."""

    url: str = Field(
        max_length=LONGEST_URL,
        description="Absolute http or https URL.",
        examples=["https://billing.internal/close"],
    )
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = Field("POST")
    headers: dict[str, str] = Field(
        default_factory=dict, max_length=64, description="Request headers; may hold {{ runId }} and the like."
    )
    body: str | None = Field(
        None, max_length=262_144, description="Request body as text; may hold {{ runId }} and the like."
    )
    json_body: JsonValue = Field(
        None,
        alias="json",
        description="Request body as JSON; sets the content type. Its texts may hold {{ runId }} and the like.",
    )
    expect_status: tuple[str, ...] = Field(
        ("2xx",), min_length=1, max_length=50, description="Statuses that mean success: `200`, `2xx`."
    )
    follow_redirects: Flag = Field(
        False,
        description="Follow redirects. To another origin go neither the job's headers nor a body.",
    )
    completion: Literal["answer", "callback"] = Field(
        "answer",
        description="`callback`: a target that answers 202 says later, with a call of its own, how it ended.",
    )
    max_redirects: Whole = Field(5, ge=1, le=20, description="Redirects followed in one attempt at most.")

    @field_validator("expect_status", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        items = value if isinstance(value, (list, tuple)) else [value]
        return tuple(str(item).lower() for item in items)

    @field_validator("expect_status")
    @classmethod
    def _known_status(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            if not _STATUS.fullmatch(item):
                raise PydanticCustomError(
                    "http_expect_status", "{item} is not a status", {"item": item, "fix": "write 200 or 2xx"}
                )
        return value

    @field_validator("url")
    @classmethod
    def _absolute(cls, url: str) -> str:
        fault = url_fault(url)
        if fault is None and "{{" in url:
            fault = UrlFault(
                code="http_url_template",
                detail="a URL has no places that are filled in",
                fix="use {{ … }} in headers and body, or %7B%7B for two braces",
            )
        if fault is not None:
            kind: Any = fault.code  # pydantic wants a literal
            raise PydanticCustomError(kind, "{detail}", {"detail": fault.detail, "fix": fault.fix})
        return url

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, text in headers.items():
            if not _TOKEN.fullmatch(name) or len(text) > 8192 or re.search(r"[^\t\x20-\x7e\x80-\xff]", text):
                raise PydanticCustomError(
                    "http_header",
                    "header {name} cannot be sent",
                    {"name": name[:80], "fix": "use the characters of RFC 9110"},
                )
            check_template(text, at=name)
            if name.lower() in RESERVED_HEADERS or name.lower().startswith("tocsin-"):
                raise PydanticCustomError(
                    "http_header_reserved",
                    "header {name} is set by tocsin",
                    {"name": name, "fix": f"remove {name}"},
                )
        return headers

    @field_validator("body", "json_body")
    @classmethod
    def _fillable(cls, value: Any) -> Any:
        check_json_template(value)
        return value

    @model_validator(mode="after")
    def _one_body(self) -> HttpTask:
        if self.body is not None and self.json_body is not None:
            raise PydanticCustomError(
                "http_two_bodies", "body and json are both given", {"fix": "keep one of body and json"}
            )
        return self


KINDS = ("http", "celery", "docker")


class Task(Document):
    """Exactly one key, the kind of the task."""

    http: HttpTask | None = None
    celery: CeleryTask | None = None
    docker: DockerTask | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_kind(cls, value: Any) -> Any:
        if isinstance(value, str) and TASK_NAME.fullmatch(value):
            return {"celery": {"name": value}}
        if (
            not isinstance(value, dict)
            or len(value) != 1
            or not value.keys() <= set(KINDS)
            or None in value.values()
        ):
            given = ", ".join(map(str, value))[:80] if isinstance(value, dict) else type(value).__name__
            raise PydanticCustomError(
                "task_kind",
                "a task has exactly one kind: http, celery or docker (given: {given})",
                {
                    "given": given or "nothing",
                    "fix": "write task: {http: {url: …}}, {celery: {name: …}} or {docker: {image: …}}",
                },
            )
        return value

    @model_serializer(mode="wrap")
    def _only_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {kind: value for kind, value in handler(self).items() if value is not None}

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)
