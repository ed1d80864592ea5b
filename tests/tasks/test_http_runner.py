"""The HTTP runner against a real receiver: what it sends, and what it makes of every kind of answer."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import uuid4

import pytest

from support.receiver import Receiver
from tocsin import __version__, clock
from tocsin.clock import to_micros
from tocsin.embedded.supervised import free_port
from tocsin.ids import RunKey, new_job_id
from tocsin.model.job import RetryPolicy
from tocsin.model.policy import retryable
from tocsin.model.status import Reason
from tocsin.model.task import HttpTask
from tocsin.store.leases import Claimed, Lease
from tocsin_tasks.http_runner import READ_BEYOND, HttpRunner, parse_retry_after
from tocsin_tasks.outcome import Outcome

NOMINAL = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LIMIT = 1000


def claimed(http: dict[str, Any], timeout: float = 10.0, attempt: int = 2) -> Claimed:
    key = RunKey(new_job_id("default", "nightly", NOMINAL), to_micros(NOMINAL))
    return Claimed(
        lease=Lease(key=key, attempt=attempt, token=uuid4()),
        job_name="nightly",
        task={"http": HttpTask.model_validate(http).model_dump(mode="json")} if "url" in http else http,
        retry_policy={},
        timeout=timeout,
        limited=False,
        cancel_requested=False,
        lateness=0.0,
    )


def call(what: Claimed, *more: Claimed) -> Outcome:
    """Run one after the other on one client; the outcome of the last."""

    async def main() -> Outcome:
        runner = HttpRunner(slots=10, output_limit=LIMIT)
        try:
            for one in (what, *more):
                outcome = await runner.run(one, clock.monotonic() + one.timeout)
            return outcome
        finally:
            await runner.close()

    return asyncio.run(main())


def test_the_request_carries_the_run_and_what_the_job_says(receiver: Receiver) -> None:
    what = claimed(
        {
            "url": f"{receiver.url}/ok?a=1",
            "headers": {"X-Team": "é", "Tocsin-Job": "liar"},
            "json": {"a": [1]},
        }
    )
    outcome = call(what)
    assert (outcome.failure, outcome.http_status) == (None, 200)
    (request,) = receiver.requests()
    run_id = str(what.lease.key)
    assert (request.method, request.path, request.json()) == ("POST", "/ok?a=1", {"a": [1]})
    expected = {
        "idempotency-key": run_id,
        "tocsin-run-id": run_id,
        "tocsin-attempt": "2",
        "tocsin-nominal-time": "2026-03-01T12:00:00.250000Z",
        "tocsin-job": "nightly",
        "user-agent": f"tocsin/{__version__}",
        "content-type": "application/json",
        "x-team": "é",
    }
    assert {name: request.headers[name] for name in expected} == expected


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_is_sent_as_told(receiver: Receiver, method: str) -> None:
    body = None if method == "HEAD" else "tëxt"
    call(claimed({"url": f"{receiver.url}/ok", "method": method, "body": body}))
    (request,) = receiver.requests()
    assert (request.method, request.body) == (method, body or "")


@pytest.mark.parametrize(
    ("status", "expect", "good", "again"),
    [
        (200, ["2xx"], True, None),
        (204, ["2xx"], True, None),
        (404, ["2xx", "404"], True, None),
        (200, ["204"], False, False),
        (301, ["2xx"], False, False),
        (301, ["3xx"], True, None),
        (400, ["2xx"], False, False),
        (404, ["2xx"], False, False),
        (408, ["2xx"], False, True),
        (425, ["2xx"], False, True),
        (429, ["2xx"], False, True),
        (500, ["2xx"], False, True),
        (503, ["2xx"], False, True),
    ],
)
def test_the_status_decides(
    receiver: Receiver, status: int, expect: list[str], good: bool, again: bool | None
) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/status/{status}", "expectStatus": expect}))
    assert outcome.http_status == status
    assert (outcome.failure is None) is good
    if outcome.failure is not None:
        assert outcome.failure.reason is Reason.HTTP_STATUS
        assert retryable(RetryPolicy(), outcome.failure) is again
        assert str(status) in (outcome.error or "")


def test_retry_after_comes_back(receiver: Receiver) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/retry-after?seconds=7"}))
    assert outcome.failure is not None
    assert outcome.failure.retry_after == timedelta(seconds=7)


def test_retry_after_is_seconds_or_a_date() -> None:
    assert parse_retry_after("120") == timedelta(seconds=120)
    ahead = parse_retry_after(format_datetime(clock.now() + timedelta(minutes=5), usegmt=True))
    assert ahead is not None
    assert timedelta(minutes=4) < ahead <= timedelta(minutes=5)
    assert parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT") == timedelta(0)
    for nonsense in (None, "", "soon", "-5", "1.5", "²", "Sun, 99 Foo 1994", "9" * 4000):
        assert parse_retry_after(nonsense) in (None, timedelta(days=1))


def test_the_deadline_bounds_a_server_that_trickles(receiver: Receiver) -> None:
    """Each read succeeds within a second; only a total deadline ends this."""
    begun = time.monotonic()
    outcome = call(claimed({"url": f"{receiver.url}/trickle"}, timeout=1.5))
    assert 1.0 < time.monotonic() - begun < 6
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.TIMEOUT, 200)
    assert outcome.output is not None
    assert outcome.output.content.startswith(b".")


def test_the_deadline_bounds_a_server_that_says_nothing(receiver: Receiver) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/hold"}, timeout=0.3))
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.TIMEOUT, None)
    assert "0.3 s" in (outcome.error or "")


@pytest.mark.parametrize(("size", "seen"), [(LIMIT - 1, LIMIT - 1), (LIMIT, LIMIT), (LIMIT + 1, LIMIT + 1)])
def test_the_output_is_kept_up_to_its_limit(receiver: Receiver, size: int, seen: int) -> None:
    output = call(claimed({"url": f"{receiver.url}/big?bytes={size}"})).output
    assert output is not None
    assert (len(output.content), output.size, output.truncated) == (min(size, LIMIT), seen, size > LIMIT)


def test_a_huge_answer_is_not_read_to_its_end(receiver: Receiver) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/big?bytes={200 << 20}"}))
    assert (outcome.failure, outcome.http_status) == (None, 200)
    assert outcome.output is not None
    assert len(outcome.output.content) == LIMIT
    assert outcome.output.truncated
    assert LIMIT + READ_BEYOND < outcome.output.size < 4 << 20


def test_an_empty_answer_is_no_output(receiver: Receiver) -> None:
    assert call(claimed({"url": f"{receiver.url}/status/200?times=9"})).output is None


def test_a_closed_connection_and_a_refused_one_are_connection_failures(receiver: Receiver) -> None:
    for url in (f"{receiver.url}/close?token=secret", f"http://127.0.0.1:{free_port()}/?token=secret"):
        outcome = call(claimed({"url": url}))
        assert outcome.failure is not None
        assert outcome.failure.reason is Reason.CONNECTION
        assert "127.0.0.1:" in (outcome.error or "")
        assert "secret" not in (outcome.error or "")


def test_a_task_that_cannot_be_read_is_a_bad_task() -> None:
    for task in ({}, {"docker": {}}, {"http": {"url": "ftp://x/"}}, {"http": {"url": "http://h/", "new": 1}}):
        outcome = call(claimed(task))
        assert outcome.failure is not None
        assert outcome.failure.reason is Reason.BAD_TASK
        assert not retryable(RetryPolicy(), outcome.failure)
