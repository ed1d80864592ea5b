"""Executes HTTP tasks: one shared client per process, one total deadline per attempt.

The attempt is bounded in time (its deadline on the monotonic clock, whatever the server does) and in bytes:
`output_limit` bytes of the body are kept, and reading stops READ_BEYOND bytes after that. Redirects are not
followed. The body is kept as it comes over the wire (`Accept-Encoding: identity`), so that a small answer
cannot unpack into a large one. No cookie outlives its request, and no proxy is taken from the environment.

Weaknesses: internal addresses are not blocked, that is the network's part. A connection that the server
closes in the instant it is used again costs an attempt.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpcore
import httpx

from tocsin import __version__, clock
from tocsin.model.policy import Failure
from tocsin.model.status import Reason
from tocsin.model.task import HttpTask, Task
from tocsin.store.leases import Claimed, Output
from tocsin_tasks.http_pool import PooledTransport
from tocsin_tasks.outcome import Outcome, failed

READ_BEYOND = (
    1_048_576  # bytes read past the kept ones, to learn the size of an answer that is a little too big
)
CONTENT_TYPE_CHARS = 200
_CONNECTION = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)


class HttpRunner:
    """Shared by all attempts of a process; `slots` is how many run at once."""

    def __init__(self, *, slots: int, output_limit: int) -> None:
        self._output_limit = output_limit
        self._client = httpx.AsyncClient(
            # The system's certificates, and SSL_CERT_FILE where it is set.
            transport=PooledTransport(verify=ssl.create_default_context(), idle_limit=slots),
            trust_env=False,
            follow_redirects=False,
            timeout=None,  # the deadline of the attempt bounds all phases together
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={"User-Agent": f"tocsin/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Close the kept connections."""
        await self._client.aclose()

    async def run(self, claimed: Claimed, deadline: float) -> Outcome:
        """Make the call; `deadline` is on the monotonic clock. Only a cancellation is raised."""
        try:
            task = Task.model_validate(claimed.task).http
            assert task is not None
            request = self._request(task, claimed)
        except (ValueError, httpx.InvalidURL) as error:
            kind = type(error).__name__
            return failed(Reason.BAD_TASK, f"this worker cannot read the job's HTTP task ({kind})")
        answer = _Answer()
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - clock.monotonic()):
                await self._call(request, answer)
        except TimeoutError:
            return _timed_out(claimed, answer)
        except (httpcore.UnsupportedProtocol, httpcore.LocalProtocolError) as error:
            return failed(Reason.BAD_TASK, f"the request cannot be sent: {_words(error)}")
        except _CONNECTION as error:
            what = f"{_peer(request)}: {_words(error)}"
            return failed(Reason.CONNECTION, what, http_status=answer.status)
        return _judge(task, answer)

    def _request(self, task: HttpTask, claimed: Claimed) -> httpx.Request:
        run_id = str(claimed.lease.key)
        nominal = claimed.lease.key.scheduled_at.isoformat().replace("+00:00", "Z")
        headers = httpx.Headers(
            [(name.encode("ascii"), text.encode("latin-1")) for name, text in task.headers.items()]
        )
        headers["Idempotency-Key"] = headers["Tocsin-Run-Id"] = run_id
        headers["Tocsin-Attempt"] = str(claimed.lease.attempt)
        headers["Tocsin-Nominal-Time"] = nominal
        headers["Tocsin-Job"] = claimed.job_name
        body: dict[str, Any] = {}
        if task.json_body is not None:
            body["json"] = task.json_body
        elif task.body is not None:
            body["content"] = task.body.encode()
        return self._client.build_request(task.method, task.url, headers=headers, **body)

    async def _call(self, request: httpx.Request, answer: _Answer) -> None:
        response = await self._client.send(request, stream=True)
        answer.status = response.status_code
        answer.retry_after = response.headers.get("Retry-After")
        answer.content_type = response.headers.get("Content-Type")
        try:
            async for chunk in response.aiter_raw():
                answer.add(chunk, self._output_limit)
                if answer.size > self._output_limit + READ_BEYOND:
                    break
        finally:
            await response.aclose()


@dataclass(slots=True)
class _Answer:
    """As much of the answer as has come."""

    status: int | None = None
    retry_after: str | None = None
    content_type: str | None = None
    size: int = 0
    kept: bytearray | None = None

    def add(self, chunk: bytes, limit: int) -> None:
        kept = self.kept = self.kept if self.kept is not None else bytearray()
        kept += chunk[: max(0, limit - self.size)]
        self.size += len(chunk)

    def output(self) -> Output | None:
        if not self.size:
            return None
        kept = bytes(self.kept or b"")
        kind = self.content_type[:CONTENT_TYPE_CHARS] if self.content_type else None
        return Output(content=kept, content_type=kind, size=self.size, truncated=self.size > len(kept))


def _judge(task: HttpTask, answer: _Answer) -> Outcome:
    status = str(answer.status)
    expected = status in task.expect_status or f"{status[0]}xx" in task.expect_status
    if expected:
        return Outcome(http_status=answer.status, output=answer.output())
    failure = Failure(
        reason=Reason.HTTP_STATUS,
        http_status=answer.status,
        retry_after=parse_retry_after(answer.retry_after),
    )
    words = f"the target answered {status}, expected was {', '.join(task.expect_status)}"
    return Outcome(failure=failure, error=words, http_status=answer.status, output=answer.output())


def _timed_out(claimed: Claimed, answer: _Answer) -> Outcome:
    came = "no answer" if answer.status is None else f"status {answer.status} and {answer.size} bytes"
    words = f"the attempt ran into its timeout of {claimed.timeout:g} s; {came} had come by then"
    return Outcome(
        failure=Failure(reason=Reason.TIMEOUT, http_status=answer.status),
        error=words,
        http_status=answer.status,
        output=answer.output(),
    )


def parse_retry_after(text: str | None) -> timedelta | None:
    """The delay that a Retry-After field asks for (RFC 9110, 10.2.3): seconds or an HTTP date."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:18]), 86_400))
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(timedelta(0), at - clock.now())


def _peer(request: httpx.Request) -> str:
    """Host and port only: paths and queries may hold secrets."""
    return request.url.netloc.decode("ascii", "replace")


def _words(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
