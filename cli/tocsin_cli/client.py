"""The API as the CLI sees it: a few verbs over HTTP, every failure an exit code.

Every POST carries a fresh Idempotency-Key, so that a request whose answer was lost can be sent again once,
with the same key, and takes effect once. Instants shown as "in 3h" count from the server's Date header, not
from this machine's clock, which may be wrong.

Weakness: only one resend, and none for an overloaded server; a script that wants more loops on exit code 6.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

from tocsin.clock import now
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, from_problem, usage

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:7420"
_TIMEOUT_SECONDS = 30.0
_PAGE = 200
_SAME_CLOCK = timedelta(seconds=2)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(slots=True)
class Answer:
    """A successful answer; `body` is None for 204."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class Client:
    """One server; use as a context manager."""

    def __init__(self, server: str | None, *, timeout: float = _TIMEOUT_SECONDS) -> None:
        # httpx has a command line of its own that imports rich (a third of its start-up); None blocks it.
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
        import httpx

        self.url = (server or os.environ.get("TOCSIN_API_URL") or DEFAULT_URL).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise usage(f"{self.url!r} is not the address of a server", "write --server http://HOST:PORT")
        # A proxy meant for the internet must not swallow the calls to a server on this machine.
        proxies = parts.hostname not in _LOOPBACK
        self._http = httpx.Client(
            base_url=self.url, timeout=timeout, trust_env=proxies, headers={"accept": "application/json"}
        )
        self.server_now: datetime | None = None
        self.incomplete: dict[str, str] = {}  # shards that a partial list is without, and why

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    @property
    def now(self) -> datetime:
        """The server's clock as of its last answer."""
        return self.server_now or now()

    def get(self, path: str, **params: str | int | None) -> Any:
        """The decoded body of a GET."""
        return self.send("GET", path, params=_given(params)).body

    def post(self, path: str, body: object | None = None) -> Any:
        """POST under a fresh Idempotency-Key."""
        key = str(uuid.uuid4())
        return self.send("POST", path, body=body, headers={"idempotency-key": key}).body

    def patch(self, path: str, body: object, *, version: object = None) -> Any:
        """A merge patch; with `version`, only if the job is still at it."""
        headers = {"content-type": "application/merge-patch+json"}
        if version is not None:
            headers["if-match"] = f'"{version}"'
        return self.send("PATCH", path, body=body, headers=headers).body

    def delete(self, path: str) -> None:
        """DELETE; an answer without a body."""
        self.send("DELETE", path)

    def items(self, path: str, limit: int, **params: str | int | None) -> Iterator[dict[str, Any]]:
        """Up to `limit` items of a list, page by page."""
        cursor: str | None = None
        while limit > 0:
            page = self.get(path, **params, limit=min(limit, _PAGE), cursor=cursor)
            self.incomplete |= page.get("incomplete") or {}
            yield from page["items"][:limit]
            limit -= len(page["items"])
            cursor = page.get("nextCursor")
            if not cursor or not page["items"]:
                return

    def send(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; raises Failure for everything but 2xx."""
        import httpx

        request = self._http.build_request(method, path, json=body, params=params, headers=headers)
        try:
            response = self._http.send(request)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            try:  # the connection broke under the request; the key makes a second sending harmless
                response = self._http.send(request)
            except httpx.HTTPError as error:
                raise self._unreachable(error, method, path) from None
        except httpx.HTTPError as error:
            raise self._unreachable(error, method, path) from None
        self._note_clock(response)
        return self._answer(response, method, path)

    def _answer(self, response: httpx.Response, method: str, path: str) -> Answer:
        try:
            body = response.json() if response.content else None
        except ValueError:
            body = None
        where = f"{method} {self.url}{path}"
        if not response.is_success:
            if request_id := response.headers.get("request-id"):
                where += f" · request {request_id}"
            raise from_problem(response.status_code, body, where)
        if body is None and response.status_code != 204:
            raise Failure(
                "the answer is not JSON: this is not a tocsin API",
                exit_code=ExitCode.UNREACHABLE,
                code="not_tocsin",
                where=where,
                fix="check --server or TOCSIN_API_URL",
            )
        return Answer(response.status_code, body, dict(response.headers))

    def _note_clock(self, response: httpx.Response) -> None:
        try:
            there = parsedate_to_datetime(response.headers["date"]).astimezone(UTC)
        except (KeyError, ValueError):
            self.server_now = None
            return
        here = now()  # where both agree, ours is finer: the header has whole seconds
        self.server_now = here if abs(here - there) < _SAME_CLOCK else there

    def _unreachable(self, error: Exception, method: str, path: str) -> Failure:
        slow = "Timeout" in type(error).__name__ and "Connect" not in type(error).__name__
        return Failure(
            f"{self.url} {'did not answer in time' if slow else 'cannot be reached'}",
            exit_code=ExitCode.UNREACHABLE,
            code="timeout" if slow else "unreachable",
            where=f"{method} {path}: {error or type(error).__name__}",
            fix="start a server with `tocsin dev`, or name yours with --server or TOCSIN_API_URL",
        )


def _given(params: Mapping[str, str | int | None]) -> dict[str, str | int]:
    return {name: value for name, value in params.items() if value is not None}


def job_path(job: str) -> str:
    """The path of a job given by ID or by name."""
    from tocsin.ids import parse_job_id

    return f"/jobs/{job}" if parse_job_id(job) else f"/jobs/name:{quote(job.removeprefix('name:'), safe='')}"


def run_path(run: str) -> str:
    """The path of a run. Raises Failure for what cannot be a run ID."""
    from tocsin.ids import parse_run_id

    if parse_run_id(run) is None:
        raise usage(f"{run!r} is not a run ID", "take one from `tocsin run list JOB -o name`")
    return f"/runs/{run}"
