"""Pure decisions: whether and when to try again, and what to do with nominal times that were missed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tocsin import schedules
from tocsin.model.job import CatchUpPolicy, RetryPolicy
from tocsin.model.status import CatchUp, Reason

# A request timeout, "too early", rate limiting and server faults pass; other client errors repeat themselves.
RETRIED_STATUSES = frozenset({408, 425, 429})
_RETRIED_REASONS = frozenset({Reason.CONNECTION, Reason.TIMEOUT, Reason.LEASE_EXPIRED, Reason.INTERNAL})
RETRY_AFTER_CAP = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How an attempt failed."""

    reason: Reason
    http_status: int | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Try again after this delay; the attempt number only rises."""

    delay: timedelta


def retryable(policy: RetryPolicy, failure: Failure) -> bool:
    """Whether this kind of failure is worth another attempt under this policy."""
    if failure.reason is not Reason.HTTP_STATUS:
        return failure.reason in _RETRIED_REASONS
    status = failure.http_status or 0
    if status in policy.no_retry_on:
        return False
    return status in policy.retry_on or status in RETRIED_STATUSES or status >= 500


def backoff(policy: RetryPolicy, attempt: int, draw: float) -> timedelta:
    """The delay after failed attempt number `attempt` (1 is the first); `draw` in [0, 1) is the jitter.

    Full jitter: a delay between zero and the exponential value spreads retries best
    (M. Brooker, "Exponential Backoff And Jitter", 2015).
    """
    exponent = min(attempt - 1, 64)  # beyond this every factor above 1 has met the cap
    seconds = min(policy.max_sec, policy.initial_sec * policy.factor**exponent)
    return timedelta(seconds=seconds * (draw if policy.jitter == "full" else 1.0))


def decide_retry(policy: RetryPolicy, attempt: int, failure: Failure, draw: float) -> Retry | None:
    """A retry, or None when the run has failed for good.

    A `Retry-After` of the target is honoured, up to RETRY_AFTER_CAP, when it is longer than the backoff.
    """
    if attempt >= policy.max_attempts or not retryable(policy, failure):
        return None
    delay = backoff(policy, attempt, draw)
    if failure.retry_after is not None:
        delay = max(delay, min(failure.retry_after, RETRY_AFTER_CAP))
    return Retry(delay=delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Nominal times `first` to `last`, dropped; `count` of them (`at_least` when counting stopped)."""

    first: datetime
    last: datetime
    count: int
    at_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpDecision:
    """What to do with a trigger that is due: fire at `fire` (None: fire nothing now), go on at `next`."""

    fire: datetime | None
    next: datetime | None
    gap: Gap | None = None


COUNT_LIMIT = 10_000


def decide_catch_up(
    schedule: schedules.Schedule, policy: CatchUpPolicy, nominal: datetime, now: datetime
) -> CatchUpDecision:
    """What becomes of the nominal time `nominal`, due at `now`, and of those after it that are due too.

    An outage is missed time only when its oldest nominal time is older than the window: until then every
    nominal time runs. Beyond it, `all` still runs each one, `latest` the last of them, `none` none; what is
    dropped comes back as one gap.
    """
    following = schedules.next_after(schedule, nominal)
    if policy.mode is CatchUp.ALL or now - nominal <= timedelta(seconds=policy.window_sec):
        return CatchUpDecision(fire=nominal, next=following)
    latest = schedules.latest_at_or_before(schedule, now, nominal) or nominal
    future = schedules.next_after(schedule, now)
    if policy.mode is CatchUp.NONE:
        return CatchUpDecision(fire=None, next=future, gap=_gap(schedule, nominal, latest))
    if latest == nominal:
        return CatchUpDecision(fire=nominal, next=following)
    before = schedules.latest_at_or_before(schedule, latest - timedelta(microseconds=1), nominal) or nominal
    return CatchUpDecision(fire=latest, next=future, gap=_gap(schedule, nominal, before))


def _gap(schedule: schedules.Schedule, first: datetime, last: datetime) -> Gap:
    count, capped = schedules.count_between(schedule, first, last, COUNT_LIMIT)
    return Gap(first=first, last=last, count=count + 1, at_least=capped)
