"""Task events for Flower and other readers of Celery's events, sampled under load.

Protocol: the executor's loop notes what begins and ends; the consumer's thread sends it, twice a second, through
Celery's own dispatcher. A task's name is its kind (`tocsin.run.http`), its ID the run ID, and `kwargs` carry job, run
and attempt, so that a search finds them. A run is told of from begin to end, or not at all: RUNS_A_SECOND is what one
worker begins to tell of, because Flower takes all events of all workers on one loop.

Events are for people who look on. They are lost when the broker is away, when more than WAITING gather, and with the
worker; nothing depends on them. Postgres knows what became of a run.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from tocsin import clock
from tocsin.model.status import RunStatus
from tocsin.queues import TASK_PREFIX
from tocsin_tasks.attempts import Attempt

logger = logging.getLogger(__name__)

RUNS_A_SECOND = 50.0
BURST = 100.0
WAITING = 2000  # events; beyond, the oldest go

TYPES = {
    RunStatus.SUCCEEDED: "task-succeeded",
    RunStatus.FAILED: "task-failed",
    RunStatus.CANCELLED: "task-revoked",
    RunStatus.SCHEDULED: "task-retried",
}


class TaskEvents:
    """What waits to be told. `began` and `ended` on the executor's loop, `send` on the consumer's thread."""

    def __init__(self, rate: float = RUNS_A_SECOND, burst: float = BURST) -> None:
        self._rate, self._burst = rate, burst
        self._budget, self._counted = burst, clock.monotonic()
        self._told: dict[Attempt, float] = {}  # when they began; no more than there are slots
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque(maxlen=WAITING)

    def began(self, attempt: Attempt) -> None:
        """An attempt is claimed; tell of it if the budget allows."""
        now = clock.monotonic()
        self._budget = min(self._burst, self._budget + (now - self._counted) * self._rate)
        self._counted = now
        if self._budget < 1:
            return
        self._budget -= 1
        self._told[attempt] = now
        claimed = attempt.claimed
        run = str(attempt.key)
        number = claimed.lease.attempt
        about = {"job": claimed.job_name, "run": run, "attempt": number}
        name = f"{TASK_PREFIX}{next(iter(claimed.task), 'unknown')}"
        received = {"name": name, "args": "()", "kwargs": repr(about), "retries": number - 1, "eta": None}
        self._note("task-received", run, received | {"root_id": run, "parent_id": None})
        self._note("task-started", run, {})

    def ended(self, attempt: Attempt, status: RunStatus | None) -> None:
        """The attempt's end is written, or its lease was lost (None)."""
        began = self._told.pop(attempt, None)
        if began is None:
            return
        result = attempt.result
        text = (result.error or str(result.reason or "")) if result else "the lease was lost"
        match status:
            case RunStatus.SUCCEEDED:
                fields = {"result": "'succeeded'", "runtime": clock.monotonic() - began}
            case RunStatus.CANCELLED:
                fields = {"terminated": False, "signum": None, "expired": False}
            case _:
                fields = {"exception": text, "traceback": ""}
        if status is None or status in TYPES:
            self._note(TYPES[status] if status else "task-failed", str(attempt.key), fields)

    def _note(self, kind: str, run: str, fields: dict[str, Any]) -> None:
        self._waiting.append((kind, {"uuid": run, "timestamp": clock.now().timestamp(), **fields}))

    def send(self, dispatcher: Any) -> None:
        """Send what waits, or drop it when events are off or the broker does not take them."""
        on = dispatcher is not None and dispatcher.enabled
        if on and dispatcher.groups and "task" not in dispatcher.groups:
            on = False
        try:
            while self._waiting:
                kind, fields = self._waiting.popleft()
                if on:
                    dispatcher.send(kind, **fields)
        except Exception as error:
            # A second connection carries events; its loss is no reason to stop working.
            logger.debug("events not sent: %r", error)
            self._waiting.clear()
