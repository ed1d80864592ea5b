"""Answers as values, and problems as answers (RFC 9457 with `code`, `errors` and `fix`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin.errors import (
    ConflictError,
    InvalidError,
    Problem,
    StaleVersionError,
    TocsinError,
)
from tocsin_api.problem_types import TYPES

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status, headers and a body. `final` is False when a long poll should look again."""

    status: int = 200
    body: bytes = b""
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    final: bool = True


class ApiError(TocsinError):
    """A problem that the HTTP side finds itself; `code` is one of TYPES."""

    def __init__(
        self, code: str, detail: str, *, fix: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.fix = fix
        self.headers = dict(headers or {})


def encode(value: Any) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer with a JSON body."""
    return Answer(status=status, body=encode(value), headers=headers or {})


def etag(version: int) -> str:
    """The strong entity tag of a job's version."""
    return f'"{version}"'


def problem(error: Exception, request_id: str) -> Answer:
    """The answer to an error; anything unexpected is `internal` and tells nothing of itself."""
    if not isinstance(error, TocsinError) or error.code not in TYPES:
        return _answer("internal", "The request failed inside tocsin.", request_id)
    if isinstance(error, InvalidError):
        count = len(error.problems)
        detail = f"{count} field{' needs' if count == 1 else 's need'} fixing."
        fix = error.problems[0].fix if count == 1 else None
        return _answer("validation", detail, request_id, fix=fix, errors=error.problems)
    headers = error.headers if isinstance(error, ApiError) else {}
    if isinstance(error, StaleVersionError):
        headers = {"etag": etag(error.current)}
    fix = error.fix if isinstance(error, ApiError | ConflictError) else None
    return _answer(error.code, str(error), request_id, fix=fix, headers=headers)


def _answer(
    code: str,
    detail: str,
    request_id: str,
    *,
    fix: str | None = None,
    errors: list[Problem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    kind = TYPES[code]
    body: dict[str, Any] = {
        "type": f"/problems/{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": f"/requests/{request_id}",
        "code": code,
        "fix": fix or kind.fix,
    }
    if errors:
        body["errors"] = [
            {"pointer": e.pointer, "code": e.code, "detail": e.detail, "fix": e.fix} for e in errors
        ]
    sent = dict(headers or {})
    if kind.retry_after is not None:
        sent["retry-after"] = str(kind.retry_after)
    return Answer(status=kind.status, body=encode(body), media_type=PROBLEM_JSON, headers=sent)
