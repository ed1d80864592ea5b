"""Executes HTTP tasks: one shared client per process, one total deadline per attempt.

The deadline (on the monotonic clock) bounds everything together: waiting for the host's turn, resolving,
connecting, sending, redirects, reading; whatever the target does. Of an answer at most `response_limit` bytes
are read, and `output_limit` of them kept, half from its beginning and half from its end. The body is kept as it
comes over the wire (`Accept-Encoding: identity`), so that a small answer cannot unpack into a large one. The
guard (`guard.py`) decides which addresses are called, redirects included.

Requests go straight to the transport: httpx's client would keep cookies, take proxies from the environment, and
read redirects that nobody follows.

Weakness: a connection that the server closes in the instant it is used again costs an attempt.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime

import httpcore
import httpx

from tocsin import clock
from tocsin.callback_token import callback_token
from tocsin.capture import HeadTail
from tocsin.model.policy import Failure
from tocsin.model.status import Reason
from tocsin.model.task import HttpTask, Task
from tocsin.settings import Settings
from tocsin.store.leases import Claimed
from tocsin_tasks.guard import GuardedNetwork, Resolver, TargetRefusedError, system_resolver
from tocsin_tasks.http_pool import PooledTransport
from tocsin_tasks.http_redirects import REDIRECTS, Hop, next_hop, origin
from tocsin_tasks.http_request import Outgoing
from tocsin_tasks.outcome import Outcome, failed
from tocsin_tasks.turns import Turns

_CONNECTION = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)


class HttpRunner:
    """Shared by all attempts of a process."""

    def __init__(self, settings: Settings, resolver: Resolver = system_resolver) -> None:
        self._output_limit = settings.output_limit
        self._response_limit = settings.response_limit
        self._egress = settings.egress
        self._network = GuardedNetwork(settings.egress, resolver)
        self._transport = PooledTransport(
            # The system's certificates, and SSL_CERT_FILE where it is set.
            verify=ssl.create_default_context(),
            idle_limit=settings.worker_slots,
            network=self._network,
        )
        self._turns = Turns(settings.http_per_host)
        self._keys = settings.signing_keys
        self._api = (settings.api_public_url or settings.api_url).rstrip("/")

    async def close(self) -> None:
        """Close the kept connections."""
        await self._transport.aclose()
        self._network.close()

    async def run(self, claimed: Claimed, deadline: float, secret: bytes = b"") -> Outcome:
        """Make the call; `deadline` is on the monotonic clock, `secret` the lease's.

        Only a cancellation is raised.
        """
        try:
            task = Task.model_validate(claimed.task).http
            assert task is not None
            callback = self._callback(claimed, secret) if task.completion == "callback" else {}
            outgoing = Outgoing(task, claimed, keys=self._keys, callback=callback)
        except (ValueError, httpx.InvalidURL) as error:
            return _unreadable(error)
        answer = _Answer(kept=HeadTail(self._output_limit), url=task.url)
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - clock.monotonic()):
                await self._call(task, outgoing, answer)
        except TimeoutError:
            return _timed_out(claimed, answer)
        except TargetRefusedError as error:
            return failed(Reason.TARGET_REFUSED, str(error))
        except (httpcore.UnsupportedProtocol, httpcore.LocalProtocolError) as error:
            return failed(Reason.BAD_TASK, f"the request cannot be sent: {_words(error)}")
        except _CONNECTION as error:
            what = f"{answer.peer}: {_words(error)}"
            return failed(Reason.CONNECTION, what, http_status=answer.status)
        except (ValueError, httpx.InvalidURL) as error:
            return _unreadable(error)
        return _judge(task, answer)

    def _callback(self, claimed: Claimed, secret: bytes) -> dict[str, str]:
        """The headers that tell the target how to call back."""
        return {
            "Tocsin-Callback-Url": f"{self._api}/v1/runs/{claimed.lease.key}/complete",
            "Tocsin-Callback-Token": callback_token(secret),
        }

    async def _call(self, task: HttpTask, outgoing: Outgoing, answer: _Answer) -> None:
        """The request and what its redirects ask for, until there is an answer to keep."""
        hop = Hop(method=task.method, url=task.url)
        left = task.max_redirects if task.follow_redirects else 0
        while True:
            answer.url = hop.url
            refused = self._egress.refused_url(hop.url)
            if refused is not None:
                raise TargetRefusedError(refused[0])
            async with self._turns.turn(origin(hop.url)):
                response = await self._transport.handle_async_request(outgoing.request(hop))
                try:
                    following = _following(task, hop, response, left, has_body=bool(outgoing.body))
                    if not isinstance(following, Hop):
                        await self._read(response, answer, following)
                        return
                    hop, left = following, left - 1
                finally:
                    await response.aclose()

    async def _read(self, response: httpx.Response, answer: _Answer, note: str | None) -> None:
        answer.status, answer.note = response.status_code, note
        answer.retry_after = response.headers.get("Retry-After")
        answer.content_type = response.headers.get("Content-Type")
        async for chunk in response.aiter_raw():
            answer.kept.add(chunk)
            if answer.kept.size > self._response_limit:
                break


def _following(
    task: HttpTask, hop: Hop, response: httpx.Response, left: int, *, has_body: bool
) -> Hop | str | None:
    """The next hop; or why a redirect is not followed; or None when the answer is none."""
    location = response.headers.get("Location")
    if not task.follow_redirects or response.status_code not in REDIRECTS or location is None:
        return None
    if left == 0:
        return f"it was the redirect after {task.max_redirects}, which is the limit"
    return next_hop(hop, response.status_code, location, has_body=has_body)


@dataclass(slots=True, kw_only=True)
class _Answer:
    """As much of the answer as has come."""

    kept: HeadTail
    url: str  # of the request in progress
    status: int | None = None
    note: str | None = None  # why a redirect was not followed
    retry_after: str | None = None
    content_type: str | None = None

    @property
    def peer(self) -> str:
        """Host and port only: paths and queries may hold secrets."""
        return httpx.URL(self.url).netloc.decode("ascii", "replace")


def _judge(task: HttpTask, answer: _Answer) -> Outcome:
    if task.completion == "callback" and answer.status == 202:
        return Outcome(waits=True, http_status=answer.status)
    status, output = str(answer.status), answer.kept.output(answer.content_type)
    if status in task.expect_status or f"{status[0]}xx" in task.expect_status:
        return Outcome(http_status=answer.status, output=output)
    failure = Failure(
        reason=Reason.HTTP_STATUS,
        http_status=answer.status,
        retry_after=parse_retry_after(answer.retry_after),
    )
    words = f"the target answered {status}, expected was {', '.join(task.expect_status)}"
    if answer.note:
        words = f"{words}; the redirect was not followed: {answer.note}"
    return Outcome(failure=failure, error=words, http_status=answer.status, output=output)


def _timed_out(claimed: Claimed, answer: _Answer) -> Outcome:
    came = "no answer" if answer.status is None else f"status {answer.status} and {answer.kept.size} bytes"
    words = f"the attempt ran into its timeout of {claimed.timeout:g} s; {came} had come by then"
    return Outcome(
        failure=Failure(reason=Reason.TIMEOUT, http_status=answer.status),
        error=words,
        http_status=answer.status,
        output=answer.kept.output(answer.content_type),
    )


def _unreadable(error: Exception) -> Outcome:
    kind = type(error).__name__
    return failed(Reason.BAD_TASK, f"this worker cannot read the job's HTTP task ({kind})")


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


def _words(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
