"""Retry and backoff are pure functions of the policy, the attempt and a draw."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.job import RetryPolicy
from tocsin.model.policy import RETRY_AFTER_CAP, Failure, backoff, decide_retry
from tocsin.model.status import Reason

POLICY = RetryPolicy(max_attempts=5, initial_sec=10, factor=2, max_sec=60, jitter="none")


def status(code: int) -> Failure:
    return Failure(reason=Reason.HTTP_STATUS, http_status=code)


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504, 599])
def test_statuses_that_pass_are_retried(code: int) -> None:
    assert decide_retry(POLICY, 1, status(code), 0.5) is not None


@pytest.mark.parametrize("code", [301, 400, 401, 403, 404, 409, 410, 422, 451])
def test_other_statuses_are_final(code: int) -> None:
    assert decide_retry(POLICY, 1, status(code), 0.5) is None


@pytest.mark.parametrize(
    ("reason", "again"),
    [
        (Reason.CONNECTION, True),
        (Reason.TIMEOUT, True),
        (Reason.LEASE_EXPIRED, True),
        (Reason.INTERNAL, True),
        (Reason.CANCELLED, False),
        (Reason.BAD_TASK, False),
    ],
)
def test_reasons(reason: Reason, again: bool) -> None:
    assert (decide_retry(POLICY, 1, Failure(reason=reason), 0.0) is not None) is again


def test_the_job_may_say_otherwise() -> None:
    policy = POLICY.model_copy(update={"retry_on": (404,), "no_retry_on": (503,)})
    assert decide_retry(policy, 1, status(404), 0.5) is not None
    assert decide_retry(policy, 1, status(503), 0.5) is None


def test_backoff_grows_to_its_cap() -> None:
    assert [backoff(POLICY, n, 0.0).total_seconds() for n in (1, 2, 3, 4, 5)] == [10, 20, 40, 60, 60]


def test_no_retry_after_the_last_attempt() -> None:
    assert decide_retry(POLICY, 4, status(500), 0.5) is not None
    assert decide_retry(POLICY, 5, status(500), 0.5) is None


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_full_jitter_stays_between_zero_and_the_backoff(attempt: int, draw: float) -> None:
    full = POLICY.model_copy(update={"jitter": "full"})
    assert timedelta(0) <= backoff(full, attempt, draw) <= backoff(POLICY, attempt, draw)


def test_retry_after_is_honoured_up_to_its_cap() -> None:
    def delay(after: timedelta) -> timedelta:
        failure = Failure(reason=Reason.HTTP_STATUS, http_status=429, retry_after=after)
        retry = decide_retry(POLICY, 1, failure, 0.5)
        assert retry is not None
        return retry.delay

    assert delay(timedelta(seconds=2)) == timedelta(seconds=10), "never sooner than the backoff"
    assert delay(timedelta(seconds=90)) == timedelta(seconds=90)
    assert delay(timedelta(days=9)) == RETRY_AFTER_CAP
