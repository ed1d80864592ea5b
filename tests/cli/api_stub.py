"""A real HTTP server that answers what was recorded, and remembers what it was asked.

Protocol: `answer(method, path, status, body)` queues an answer; the last one of a queue stays. What was not
recorded is a 404 problem, as from the API. The Date header is fixed, so "in 3h" is the same on every day.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

DATE = "Sat, 28 Mar 2026 22:30:00 GMT"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class ApiStub:
    """The server; a context manager."""

    requests: list[Request] = field(default_factory=list)
    tried: list[Request] = field(default_factory=list)  # dry runs; all are fine but for a recorded answer
    _answers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))
    _server: ThreadingHTTPServer | None = None

    def answer(self, method: str, path: str, status: int, body: Any = None) -> None:
        """Record one more answer for this method and path; "drop" as body closes the connection unanswered."""
        self._answers[method, path].append((status, body))

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def sent(self, method: str) -> list[Request]:
        """The requests of one method, in order."""
        return [request for request in self.requests if request.method == method]

    def take(self, request: Request) -> tuple[int, Any]:
        """The next answer for a request."""
        if "dryRun=true" in request.query:
            self.tried.append(request)
            queue = self._answers.get((request.method, request.path + "?dryRun=true"))
            return queue[0] if queue else (200, {})
        self.requests.append(request)
        queue = self._answers.get((request.method, request.path))
        if not queue:
            return 404, problem("not_found", f"there is nothing at {request.path}")
        return queue.pop(0) if len(queue) > 1 else queue[0]

    def __enter__(self) -> Self:
        stub = self

        class Handler(_Handler):
            api = stub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    api: ApiStub
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(raw) if raw else None
        status, answer = self.api.take(Request(self.command, unquote(parts.path), parts.query, headers, body))
        if answer == "drop":
            self.close_connection = True
            return
        self._send(status, answer)

    do_GET = do_POST = do_PATCH = do_DELETE = _handle

    def _send(self, status: int, answer: Any) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        content = b"" if answer is None else text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("request-id", "req_0123")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return DATE

    def log_message(self, *_: object) -> None:
        """Quiet."""


def problem(code: str, detail: str, *errors: dict[str, str], **more: str) -> dict[str, Any]:
    """A problem document."""
    body: dict[str, Any] = {"type": f"https://tocsin.dev/problems/{code}", "title": detail, "code": code}
    return body | {"detail": detail} | ({"errors": list(errors)} if errors else {}) | more
