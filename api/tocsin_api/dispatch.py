"""From a request to an answer: read, decode, validate, call the handler in a thread, write the answer.

The event loop only moves bytes; everything else happens in at most THREADS threads, and at most WAITING more
requests wait for one. Beyond that a request is refused at once (503 `overloaded`). Whatever goes wrong
becomes a problem document; what was not expected is logged with the request's ID.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tocsin.clock import monotonic
from tocsin.errors import InvalidError, TocsinError
from tocsin.model.problems import parse
from tocsin.settings import Settings
from tocsin_api import jsontext
from tocsin_api.answers import Answer, ApiError, problem
from tocsin_api.calls import Call, idempotency_key
from tocsin_api.operations import PATCH, Operation
from tocsin_api.queries import NoQuery, WaitQuery

THREADS = 16
WAITING = 256
POLL_SECONDS = 0.5
_log = logging.getLogger("tocsin.api")
Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(settings: Settings, operations: Mapping[str, Operation], limiter: CapacityLimiter) -> Endpoint:
    """The endpoint of one path; `operations` by method."""

    async def serve(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        try:
            answer = await _serve(settings, operations[method], request, limiter)
        except ClientDisconnect:
            raise
        except Exception as error:
            answer = problem_of(error, request)
        return respond(answer)

    return serve


def problem_of(error: Exception, request: Request) -> Answer:
    """The answer to an error; an unexpected one is logged."""
    request_id = request.scope.get("tocsin.request_id", "unknown")
    if not isinstance(error, TocsinError):
        _log.exception("request %s failed", request_id, exc_info=error)
    return problem(error, request_id)


def respond(answer: Answer) -> Response:
    """The answer on the wire."""
    media_type = answer.media_type if answer.body else None
    return Response(
        answer.body, status_code=answer.status, headers=dict(answer.headers), media_type=media_type
    )


async def _serve(
    settings: Settings, operation: Operation, request: Request, limiter: CapacityLimiter
) -> Answer:
    raw = await _body(request, settings.body_limit)
    url_path = request.scope["path"].removeprefix("/v1")
    call = Call(
        settings=settings,
        path=request.path_params,
        query=None,
        body=None,
        headers=request.headers,
        key=None,
        url_path=url_path,
        url_query=tuple(request.query_params.multi_items()),
    )
    media_type = request.headers.get("content-type", "")

    def work() -> Answer:
        return operation.handler(_decode(call, operation, raw, media_type))

    answer = await _in_thread(work, limiter)
    if operation.waits and not answer.final:
        answer = await _wait(work, answer, call, limiter)
    return answer


async def _wait(work: Callable[[], Answer], answer: Answer, call: Call, limiter: CapacityLimiter) -> Answer:
    """Ask again until the answer is final or the time is up; no thread is held in between."""
    query = parse_query(WaitQuery, call.url_query)
    end = monotonic() + query.wait_sec
    while not answer.final and (left := end - monotonic()) > 0:
        await anyio.sleep(min(POLL_SECONDS, left))
        answer = await _in_thread(work, limiter)
    return answer


async def _in_thread(work: Callable[[], Answer], limiter: CapacityLimiter) -> Answer:
    if limiter.statistics().tasks_waiting >= WAITING:
        raise ApiError("overloaded", f"{WAITING} requests are waiting already")
    return await to_thread.run_sync(work, limiter=limiter)


async def _body(request: Request, limit: int) -> bytes:
    """The whole body, at most `limit` bytes, whatever its Content-Length says."""
    too_large = ApiError(
        "payload_too_large",
        f"the body has more than {limit} bytes",
        fix=f"send a body of at most {limit} bytes",
        headers={"connection": "close"},
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


def _decode(call: Call, operation: Operation, raw: bytes, media_type: str) -> Call:
    query = parse_query(operation.query or NoQuery, call.url_query)
    body: Any = None
    value: Any = {}
    if operation.request is not None:
        if raw:
            _check_media_type(operation, media_type)
            _check_coding(call.headers.get("content-encoding", ""))
            value = jsontext.loads(raw)
        elif operation.request is PATCH:
            value = None
        body = value if isinstance(operation.request, str) else parse(operation.request, value)
    call = replace(call, query=query, body=body)
    return idempotency_key(call, operation.method, jsontext.canonical(value)) if operation.keyed else call


def _check_coding(coding: str) -> None:
    if coding.strip().lower() not in {"", "identity"}:
        raise ApiError(
            "unsupported_media_type",
            f"the body is coded as {coding.strip()[:80]}, which this server does not read",
            fix="send the body as it is, without Content-Encoding",
        )


def _check_media_type(operation: Operation, header: str) -> None:
    name, _, parameters = header.partition(";")
    accepted = {"application/json"} | (
        {"application/merge-patch+json"} if operation.request == PATCH else set()
    )
    if name.strip().lower() not in accepted:
        raise ApiError(
            "unsupported_media_type",
            f"the body is {name.strip()[:80] or 'of no named type'}, not {' or '.join(sorted(accepted))}",
        )
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if charset not in {"", "utf-8", "utf8"}:
        raise ApiError(
            "unsupported_media_type",
            f"the body is said to be {charset[:80]}; JSON is UTF-8 (RFC 8259)",
            fix="encode the body in UTF-8, and send Content-Type: application/json without a charset",
        )


def parse_query(model: type[Any], items: tuple[tuple[str, str], ...]) -> Any:
    """Query parameters as a model. Raises InvalidError with pointers such as `?limit`."""
    lists = {
        field.alias or name for name, field in model.model_fields.items() if "list" in str(field.annotation)
    }
    raw: dict[str, Any] = {}
    for name, value in items:
        jsontext.check_text(value)
        if name in lists:
            raw.setdefault(name, []).append(value)
        else:
            raw[name] = value
    try:
        return parse(model, raw)
    except InvalidError as error:
        raise InvalidError(
            [replace(p, pointer="?" + p.pointer.removeprefix("#/")) for p in error.problems]
        ) from None
