"""The HTTP runner against a real receiver: what it sends, and what it makes of every kind of answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from support.receiver import Receiver
from tasks.attempt import attempt
from tocsin import __version__, clock
from tocsin.egress import LOOPBACK
from tocsin.embedded.supervised import free_port
from tocsin.model.job import RetryPolicy
from tocsin.model.policy import retryable
from tocsin.model.status import Reason
from tocsin.model.task import HttpTask
from tocsin.settings import Settings
from tocsin.signature import BadSignatureError, verify
from tocsin.store.leases import Claimed
from tocsin_tasks.http_runner import HttpRunner, parse_retry_after
from tocsin_tasks.outcome import Outcome

LIMIT = 1000
READ = 1_048_576


def claimed(http: dict[str, Any], timeout: float = 10.0, number: int = 2) -> Claimed:
    task = {"http": HttpTask.model_validate(http).model_dump(mode="json")} if "url" in http else http
    return attempt(task, timeout=timeout, number=number)


def call(what: Claimed, *more: Claimed, **settings: Any) -> Outcome:
    """Run one after the other on one client; the outcome of the last."""

    async def main() -> Outcome:
        runner = HttpRunner(
            Settings(http_allow=LOOPBACK, output_limit=LIMIT, response_limit=READ, **settings)
        )
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
            "headers": {"X-Team": "é"},
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


def test_places_in_headers_and_body_are_filled_in(receiver: Receiver) -> None:
    headers = {"X-Run": "run {{ runId }}", "X-Two": "{{attempt}}{{ attempt }}"}
    what = claimed({"url": f"{receiver.url}/ok", "headers": headers, "json": {"day": ["{{ nominalDate }}"]}})
    what = replace(what, time_zone="Pacific/Auckland")
    assert call(what).failure is None
    assert (
        call(claimed({"url": f"{receiver.url}/ok", "body": "{{ jobName }} at {{ nominalTime }}"})).failure
        is None
    )
    first, second = receiver.requests()
    assert first.headers["x-run"] == f"run {what.lease.key}"
    assert first.headers["x-two"] == "22"
    assert first.json() == {"day": ["2026-03-02"]}
    assert second.body == "nightly at 2026-03-01T12:00:00.250000Z"


def test_every_call_is_signed_with_every_key(receiver: Receiver) -> None:
    """With what the receiver itself sees: path and query as they came, the body as it came."""
    what = claimed({"url": f"{receiver.url}/ok?a=ü&c=%2F#fragment", "json": {"text": "ß"}})
    assert (
        call(
            what,
            claimed({"url": f"{receiver.url}/ok", "method": "GET"}),
            signing_key=f"{'a' * 16},{'b' * 16}",
        ).failure
        is None
    )
    for request in receiver.requests():
        header = request.headers["tocsin-signature"]
        assert header.count("v1=") == 2
        for key in (b"a" * 16, b"b" * 16):
            verify(
                [key],
                header,
                method=request.method,
                target=request.path,
                key=request.key,
                body=request.body.encode(),
            )
    with pytest.raises(BadSignatureError):
        verify([b"a" * 16], header, method="GET", target="/other", key=request.key, body=b"")


def test_without_a_key_nothing_is_signed(receiver: Receiver) -> None:
    call(claimed({"url": f"{receiver.url}/ok"}))
    assert "tocsin-signature" not in receiver.requests()[0].headers


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


def test_the_deadline_bounds_a_head_that_trickles(receiver: Receiver) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/drip"}, timeout=1.5))
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.TIMEOUT, None)


def test_the_deadline_bounds_a_target_that_reads_nothing() -> None:
    """The body is larger than what the system's buffers take."""

    async def main() -> None:
        silent = await asyncio.start_server(
            lambda reader, _: reader._transport.pause_reading(), "127.0.0.1", 0
        )
        url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"
        runner = HttpRunner(Settings(http_allow=LOOPBACK))
        what = claimed({"url": url, "json": ["x" * 1000] * 20_000}, timeout=0.5)
        outcome = await runner.run(what, clock.monotonic() + what.timeout)
        assert outcome.failure is not None
        assert outcome.failure.reason is Reason.TIMEOUT
        await runner.close()
        silent.close()

    asyncio.run(main())


def test_the_deadline_bounds_a_server_that_says_nothing(receiver: Receiver) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/hold"}, timeout=0.3))
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.TIMEOUT, None)
    assert "0.3 s" in (outcome.error or "")


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1, 100_000])
def test_the_output_is_kept_up_to_its_limit(receiver: Receiver, size: int) -> None:
    output = call(claimed({"url": f"{receiver.url}/big?bytes={size}"})).output
    assert output is not None
    assert (output.content.count(b"x"), output.size) == (min(size, LIMIT), size)
    assert output.truncated is (size > LIMIT)
    assert (f"{size - LIMIT} bytes left out" in output.content.decode()) is (size > LIMIT)


def test_a_huge_answer_is_not_read_to_its_end(receiver: Receiver) -> None:
    outcome = call(claimed({"url": f"{receiver.url}/big?bytes={200 << 20}"}))
    assert (outcome.failure, outcome.http_status) == (None, 200)
    assert outcome.output is not None
    assert outcome.output.content.count(b"x") == LIMIT
    assert outcome.output.truncated
    assert READ < outcome.output.size < 4 << 20


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
