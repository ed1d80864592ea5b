"""What an execution comes to, before the retry policy has its say."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from tocsin.model.job import RetryPolicy
from tocsin.model.policy import Failure, decide_retry
from tocsin.model.status import Reason
from tocsin.store.leases import Claimed, Ending, Output, Result

ERROR_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Success when `failure` is None, unless it `waits` for a callback.

    `error` is for people and names no secret: no path, no header.
    """

    failure: Failure | None = None
    waits: bool = False
    error: str | None = None
    http_status: int | None = None
    output: Output | None = None


def failed(reason: Reason, error: str, *, http_status: int | None = None) -> Outcome:
    """A failure without output."""
    return Outcome(
        failure=Failure(reason=reason, http_status=http_status), error=error, http_status=http_status
    )


def conclude(claimed: Claimed, outcome: Outcome) -> Result:
    """The end of the attempt: success, a retry after its backoff, or failure for good."""
    failure = outcome.failure
    ending, delay = Ending.CALLBACK if outcome.waits else Ending.SUCCEEDED, timedelta(0)
    if failure is not None:
        # A policy of a newer version that this worker cannot read must not lose the run.
        policy = read_policy(claimed)
        retry = decide_retry(policy, claimed.lease.attempt, failure, random.random())
        ending, delay = (Ending.RETRY, retry.delay) if retry else (Ending.FAILED, delay)
    return Result(
        lease=claimed.lease,
        limited=claimed.limited,
        ending=ending,
        reason=failure.reason if failure else None,
        error=outcome.error and outcome.error[:ERROR_CHARS],
        http_status=outcome.http_status,
        delay=delay,
        output=outcome.output,
    )


def cancelled(claimed: Claimed) -> Result:
    """The end of an attempt that somebody asked to cancel."""
    return Result(
        lease=claimed.lease,
        limited=claimed.limited,
        ending=Ending.CANCELLED,
        reason=Reason.CANCELLED,
        error="cancelled on request",
    )


def resumed(claimed: Claimed) -> Result:
    """The attempt goes on at another worker, at once and without counting as another attempt."""
    return Result(
        lease=claimed.lease,
        limited=claimed.limited,
        ending=Ending.RESUME,
        reason=Reason.HANDED_OVER,
        error="its worker was stopped; another one goes on with the container",
    )


def read_policy(claimed: Claimed) -> RetryPolicy:
    """The job's retry policy, or the default one when it cannot be read."""
    try:
        return RetryPolicy.model_validate(claimed.retry_policy)
    except ValueError:
        return RetryPolicy()
