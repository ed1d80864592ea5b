"""A target calls back: `POST /runs/{runId}/complete` with the token that it was given.

The token is all the authorization there is, and it fits one attempt of one run. Whatever is wrong with it, be it
missing, of another run, used, or overtaken by another attempt, the answer is the same.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field, JsonValue
from sqlalchemy import Connection

from tocsin.callback_token import read_callback_token
from tocsin.capture import HeadTail
from tocsin.model.duration import Document
from tocsin.store import callbacks
from tocsin.store.leases import Output
from tocsin_api.answers import Answer, ApiError
from tocsin_api.calls import Call

TOKEN_HEADER = "Tocsin-Callback-Token"


class CompletionBody(Document):
    """How a run ended, as its target says."""

    status: Literal["succeeded", "failed"] = Field(description="`succeeded` or `failed`.")
    error: str | None = Field(None, max_length=500, description="What went wrong, for people.")
    output: JsonValue = Field(None, description="Kept with the run: a text as it is, anything else as JSON.")
    content_type: str | None = Field(
        None, max_length=200, description="Of the output; `text/plain` or `application/json` when left out."
    )
    retry: bool = Field(
        True, description="Whether a failure is worth another attempt, if there are any left."
    )


def complete(call: Call) -> Answer:
    """POST /runs/{runId}/complete"""
    key, body = call.run, call.body
    token = read_callback_token(call.headers.get(TOKEN_HEADER))
    report = callbacks.Report(
        succeeded=body.status == "succeeded",
        error=body.error,
        output=_output(body, call.settings.output_limit),
        retry=body.retry,
    )

    def work(conn: Connection) -> Answer:
        if token is None or not callbacks.complete(conn, key, token, report):
            raise ApiError(
                "bad_token", f"{TOKEN_HEADER} does not fit an attempt of this run that is in progress"
            )
        return Answer(status=204)

    return call.effect(key.partition, work)


def _output(body: Any, limit: int) -> Output | None:
    if body.output is None:
        return None
    capture = HeadTail(limit)
    if isinstance(body.output, str):
        capture.add(body.output.encode())
        return capture.output(body.content_type or "text/plain; charset=utf-8")
    capture.add(json.dumps(body.output, ensure_ascii=False, separators=(",", ":")).encode())
    return capture.output(body.content_type or "application/json")
