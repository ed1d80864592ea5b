"""Job and run identifiers, and the partition they lie in.

A job ID is `job_` and the 32 hex digits of a version 7 UUID (RFC 9562), so IDs sort by creation time. A run
ID is `run_`, the same 32 digits, and the nominal time as 14 hex digits of microseconds since 1970 UTC. It is
made from (job, nominal time) alone and read back into them, so any process finds the partition and the shard
of a run without a look-up, and two runs of one nominal time cannot have two names.

The partition is the low ten bits of the job's UUID. They are random in a version 7 UUID; `new_job_id` sets
them from the job's (namespace, name), so a name too leads to one partition, and the uniqueness of a name is
a constraint inside one shard. The price: a job cannot be renamed.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tocsin.clock import from_micros, to_micros

PARTITIONS = 1024
_LOW_BITS = PARTITIONS - 1
_JOB = re.compile(r"job_([0-9a-f]{32})")
_RUN = re.compile(r"run_([0-9a-f]{32})([0-9a-f]{14})")


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """What a run ID says: the job and the nominal time (microseconds since 1970 UTC)."""

    job_id: UUID
    scheduled_us: int

    @property
    def partition(self) -> int:
        return partition_of(self.job_id)

    @property
    def scheduled_at(self) -> datetime:
        return from_micros(self.scheduled_us)

    def __str__(self) -> str:
        return f"run_{self.job_id.hex}{self.scheduled_us:014x}"


def partition_of(job_id: UUID) -> int:
    """The partition, 0 to 1023, that holds every row of this job."""
    return job_id.int & _LOW_BITS


def partition_of_name(namespace: str, name: str) -> int:
    """The partition in which a job of this name lies, if it exists."""
    digest = hashlib.blake2b(f"{namespace}\x00{name}".encode(), digest_size=2).digest()
    return int.from_bytes(digest, "big") & _LOW_BITS


def new_job_id(namespace: str, name: str, at: datetime) -> UUID:
    """A fresh job ID created `at` that lies in the partition of its name."""
    millis = to_micros(at) // 1000
    rand = int.from_bytes(os.urandom(10), "big")
    value = (millis & (1 << 48) - 1) << 80 | rand
    value = value & ~(0xF << 76) | 0x7 << 76  # version 7
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant of RFC 9562
    return UUID(int=value & ~_LOW_BITS | partition_of_name(namespace, name))


def format_job_id(job_id: UUID) -> str:
    """`job_` and 32 hex digits."""
    return f"job_{job_id.hex}"


def parse_job_id(text: str) -> UUID | None:
    """The UUID in a job ID, or None when the text is no job ID."""
    match = _JOB.fullmatch(text)
    return UUID(hex=match[1]) if match else None


def run_id(job_id: UUID, scheduled_at: datetime) -> str:
    """The run ID of one nominal time of one job. Instants before 1970 have none and raise ValueError."""
    micros = to_micros(scheduled_at)
    if not 0 <= micros < 1 << 56:
        raise ValueError(f"a run's nominal time lies between 1970 and 4253, not at {scheduled_at}")
    return f"run_{job_id.hex}{micros:014x}"


def parse_run_id(text: str) -> RunKey | None:
    """The job and the nominal time of a run ID, or None when the text is no run ID."""
    match = _RUN.fullmatch(text)
    return RunKey(UUID(hex=match[1]), int(match[2], 16)) if match else None
