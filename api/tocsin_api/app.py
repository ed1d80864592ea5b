"""The API as a Starlette application: the operations at the root and under /v1, `/openapi.json`, `/docs`.

The process holds no state of its own: any number of them serve one set of shards.
"""

from __future__ import annotations

import logging
import signal
import socket
import uuid
from collections import defaultdict
from types import FrameType
from typing import Any

from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.errors import InvalidError, NotFoundError, Problem
from tocsin.settings import Settings
from tocsin_api.answers import ApiError
from tocsin_api.dispatch import THREADS, endpoint, problem_of, respond
from tocsin_api.documentation import documentation_routes
from tocsin_api.operations import OPERATIONS, Operation

log = logging.getLogger(__name__)


def create_app(settings: Settings) -> Starlette:
    """The application for these settings."""
    limiter = CapacityLimiter(THREADS)
    routes = _routes(settings, limiter)
    app = Starlette(
        routes=[*documentation_routes(), *routes, Mount("/v1", app=Router(routes, redirect_slashes=False))],
        exception_handlers={HTTPException: _http_problem},
    )
    app.router.redirect_slashes = False
    app.add_middleware(RequestId)
    return app


def run(settings: Settings, host: str, port: int) -> int:
    """Serve until a signal ends it; returns the exit code. For the main thread of a process."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Say where it serves: a port of 0 is known only now."""
            await super().startup(sockets)
            if self.started:
                bound = self.servers[0].sockets[0].getsockname()
                log.info("api ready http://%s:%d", bound[0], bound[1])

    config = uvicorn.Config(
        create_app(settings),
        host=host,
        port=port,
        log_level="warning",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        server_header=False,
    )
    server = Server(config)
    _check_free(host, port)
    # uvicorn raises the signal that ended it once more, for the handler that was there before: this one.
    before = {sig: signal.signal(sig, _ignore) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
    return 0 if server.started else 1


def _check_free(host: str, port: int) -> None:
    """Raises InvalidError when the address cannot be had; uvicorn would end the process with an exit code of its own.

    uvicorn then binds by itself: on a socket made here asyncio would leave Nagle's algorithm on.
    """
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise InvalidError(
            [
                Problem(
                    pointer="--port",
                    code="address",
                    detail=f"{host}:{port} cannot be listened on: {error.strerror or error}",
                    fix="give another --port, 0 for any free one, or another --host",
                )
            ]
        ) from error


def _ignore(sig: int, frame: FrameType | None) -> None:
    """Serving has ended already."""


def _routes(settings: Settings, limiter: CapacityLimiter) -> list[BaseRoute]:
    by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in OPERATIONS:
        by_path[operation.path][operation.method] = operation
    return [
        Route(path, endpoint(settings, operations, limiter), methods=list(operations))
        for path, operations in by_path.items()
    ]


async def _http_problem(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: an unknown path, a method that the path does not have."""
    assert isinstance(error, HTTPException)
    cause: Exception
    if error.status_code == 405:
        allow = dict(error.headers or {})
        cause = ApiError(
            "method_not_allowed", f"{request.url.path} does not have {request.method}", headers=allow
        )
    elif error.status_code == 404:
        cause = NotFoundError(f"there is no path {request.url.path[:200]}")
    else:
        cause = error
    return respond(problem_of(cause, request))


class RequestId:
    """Gives every request an ID of ours, returned in `Request-Id`; one that came in is not trusted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex}"
        scope["tocsin.request_id"] = request_id

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: list[Any] = message.setdefault("headers", [])
                message["headers"] = [*headers, (b"request-id", request_id.encode())]
            await send(message)

        await self._app(scope, receive, sending)
