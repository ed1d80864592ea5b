"""What a worker process counts, for its log, its metrics and its tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counts since the start of the process. Each field is written by one thread."""

    rejected: int = 0  # messages that could not be read
    received: int = 0
    claimed: int = 0
    not_claimed: int = 0  # another worker had the attempt, or it was over
    requeued: int = 0  # messages given back because their shard could not be reached
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    handed_over: int = 0  # attempts that wait for their target to call back
    cancelled: int = 0
    lost: int = 0  # attempts whose lease was gone; their results were discarded
    late_max: float = 0.0  # seconds, the worst lateness of a first attempt
    store_errors: int = 0
