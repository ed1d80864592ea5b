"""Pure decisions: whether and when to try again, and what to do with nominal times that were missed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from tocsin import schedules
from tocsin.model.job import CatchUpPolicy, RetryPolicy
from tocsin.model.status import CatchUp, Overlap, Reason

# A request timeout, "too early", rate limiting and server faults pass; other client errors repeat themselves.
RETRIED_STATUSES = frozenset({408, 425, 429})
_RETRIED_REASONS = frozenset(
    {Reason.CONNECTION, Reason.TIMEOUT, Reason.LEASE_EXPIRED, Reason.REPORTED, Reason.INTERNAL}
)
# A container's program may have met something that passes; what its image lacks does not come by itself.
_RETRIED_REASONS |= {Reason.EXIT_CODE, Reason.SIGNAL, Reason.OUT_OF_MEMORY, Reason.IMAGE_PULL, Reason.ENGINE}
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


COUNT_LIMIT = 10_000  # nominal times counted in one gap; a longer one is told as "at least"


class Admission(Enum):
    """What the overlap policy says of a run that is due."""

    QUEUED = "queued"
    WAITING = "waiting"
    OVERLAP = "overlap"
    QUEUE_FULL = "queue_full"


def decide_catch_up(
    schedule: schedules.Schedule,
    policy: CatchUpPolicy,
    nominal: datetime,
    now: datetime,
    retention: timedelta = timedelta(days=30),
) -> CatchUpDecision:
    """What becomes of the nominal time `nominal`, due at `now`, and of those after it that are due too.

    An outage is missed time only when its oldest nominal time is older than the window: until then every
    nominal time runs. Beyond it, `all` still runs each one, `latest` the last of them, `none` none; what is
    dropped comes back as one gap. Whatever the mode, a nominal time past the retention of runs is dropped:
    the history could not hold it.
    """
    following = schedules.next_after(schedule, nominal)
    if now - nominal <= timedelta(seconds=policy.window_sec):
        return CatchUpDecision(fire=nominal, next=following)
    latest = schedules.latest_at_or_before(schedule, now, nominal) or nominal
    horizon = now - retention
    if policy.mode is CatchUp.NONE or latest < horizon:
        return CatchUpDecision(
            fire=None, next=schedules.next_after(schedule, now), gap=_gap(schedule, nominal, latest)
        )
    if policy.mode is CatchUp.ALL:
        if nominal >= horizon:
            return CatchUpDecision(fire=nominal, next=following)
        keep = schedules.next_after(schedule, horizon)
    else:
        keep = latest
    if keep is None or keep == nominal:
        return CatchUpDecision(fire=nominal, next=following)
    before = schedules.latest_at_or_before(schedule, keep - timedelta(microseconds=1), nominal) or nominal
    return CatchUpDecision(
        fire=keep, next=schedules.next_after(schedule, keep), gap=_gap(schedule, nominal, before)
    )


def _gap(schedule: schedules.Schedule, first: datetime, last: datetime) -> Gap:
    count, capped = schedules.count_between(schedule, first, last, COUNT_LIMIT)
    return Gap(first=first, last=last, count=count + 1, at_least=capped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A job's overlap policy: at most `max_running` at once; under `queue`, `queue_limit` may wait."""

    overlap: Overlap
    max_running: int
    queue_limit: int


def admit(limit: Limit, active: int, waiting: int, candidates: list[bool]) -> list[Admission]:
    """Decide for each candidate run of one job, in the order of their nominal times.

    A candidate is True when it waits already (a released run), False when it is new. `active` counts runs
    that hold a place, `waiting` those that wait, the released candidates among them. A new run never
    overtakes one that waits.
    """
    decisions = []
    for waits in candidates:
        behind = waiting > 0 and not waits
        if active < limit.max_running and not behind:
            active += 1
            waiting -= waits
            decisions.append(Admission.QUEUED)
        elif waits:
            decisions.append(Admission.WAITING)
        elif limit.overlap is Overlap.SKIP:
            decisions.append(Admission.OVERLAP)
        elif waiting < limit.queue_limit:
            waiting += 1
            decisions.append(Admission.WAITING)
        else:
            decisions.append(Admission.QUEUE_FULL)
    return decisions
