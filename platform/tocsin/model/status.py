"""The closed sets of words: states, reasons, tiers, policies. The values are what API and store write."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The state of a run. `docs/architecture.md` has the diagram of who moves a run from where to where."""

    SCHEDULED = "scheduled"  # a trigger will act: a manual run not yet fired, a retry waiting for its backoff
    WAITING = "waiting"  # held back by the concurrency policy `queue`
    QUEUED = "queued"  # committed for execution; its message is published, or will be
    RUNNING = "running"  # a worker holds the lease of the current attempt
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # the concurrency policy gave the nominal time no execution; `reason` says why


FINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.SKIPPED})
LIVE = frozenset(RunStatus) - FINAL


class Reason(StrEnum):
    """Why a run or an attempt ended as it did; `error` carries the words for people."""

    HTTP_STATUS = "http_status"  # the answer's status was not an expected one
    CONNECTION = "connection"  # no connection, reset, DNS, TLS, a broken answer
    TIMEOUT = "timeout"  # the attempt ran into the job's timeout
    LEASE_EXPIRED = "lease_expired"  # the worker died or lost contact
    CANCELLED = "cancelled"  # somebody asked
    OVERLAP = "overlap"  # policy `skip`: an earlier run was still going
    QUEUE_FULL = "queue_full"  # policy `queue`: as many runs wait as may
    JOB_DELETED = "job_deleted"
    EXIT_CODE = "exit_code"  # the container ended with another code than 0
    SIGNAL = "signal"  # the container's program was ended by a signal that was not the worker's
    OUT_OF_MEMORY = "out_of_memory"  # the container needed more memory than it has
    IMAGE_MISSING = "image_missing"  # there is no such image, or nobody may pull it
    IMAGE_PULL = "image_pull"  # the image could not be pulled this time
    ENGINE = "engine"  # the container engine failed, or lost the container
    REFUSED = "refused"  # the operator's policy does not allow the task
    HANDED_OVER = "handed_over"  # the attempt goes on at another worker
    REPORTED = "reported"  # the target called back and said that it failed
    TARGET_REFUSED = "target_refused"  # the guard lets no HTTP task call this address
    BAD_TASK = "bad_task"  # this worker cannot execute the definition
    INTERNAL = "internal"  # a fault of tocsin's own


class RunOrigin(StrEnum):
    """What made the run."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    RERUN = "rerun"


class TriggerKind(StrEnum):
    """What a trigger does when it is due."""

    SCHEDULE = "schedule"  # makes the run of its nominal time and moves on to the next one
    RUN = "run"  # sends an existing run (manual, retry, released from waiting) to execution


class Tier(StrEnum):
    """Priority class with queues of its own."""

    CRITICAL = "critical"
    DEFAULT = "default"
    BATCH = "batch"


class Overlap(StrEnum):
    """What happens when a run is due while `max` runs of the job are still going."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


class CatchUp(StrEnum):
    """What happens to nominal times missed in an outage longer than the window."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


# What the API adds to a job document; a job file must not carry it.
SERVER_FIELDS = frozenset(
    {"jobId", "version", "createdAt", "updatedAt", "nextRunAt", "pauseReason", "namespace", "lastRun"}
)
