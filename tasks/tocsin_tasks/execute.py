"""Executes one attempt: from the claim to its result, whatever happens on the way.

Every exception of a runner becomes an internal failure, which the retry policy judges; a run is never lost
to a fault of this code. A lost lease gives no result.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tocsin.model.status import Reason
from tocsin.settings import Settings
from tocsin.store.leases import Result
from tocsin_tasks.attempts import Attempt, Stop
from tocsin_tasks.celery_runner import CeleryRunner
from tocsin_tasks.http_runner import HttpRunner
from tocsin_tasks.outcome import Outcome, cancelled, conclude, failed, resumed

if TYPE_CHECKING:
    from tocsin_tasks.containers.runner import DockerRunner

logger = logging.getLogger(__name__)


class Execution:
    """The runners of a process. Each kind of task has one; containers only where there is an engine."""

    def __init__(self, settings: Settings, docker: DockerRunner | None = None) -> None:
        self._docker = docker
        self._celery = CeleryRunner(settings)
        self._http = HttpRunner(settings)

    async def close(self) -> None:
        """Close what the runners hold."""
        await self._http.close()
        await self._celery.close()

    async def execute(self, attempt: Attempt) -> None:
        """Run the attempt and leave its result in it; none when its lease is lost."""
        attempt.begun = True
        outcome = None
        if attempt.stopped is None and not attempt.claimed.cancel_requested:
            outcome = await self._outcome(attempt)
        attempt.result = _result(attempt, outcome)

    async def _outcome(self, attempt: Attempt) -> Outcome | None:
        """None when the attempt was cut short."""
        try:
            return await self._run(attempt)
        except asyncio.CancelledError:
            if attempt.stopped is None:
                raise  # the loop itself ends
            return None
        except Exception as error:
            logger.exception("fault while executing %s", attempt.key)
            return failed(Reason.INTERNAL, f"fault of the worker: {type(error).__name__}")

    async def _run(self, attempt: Attempt) -> Outcome:
        kind = next(iter(attempt.claimed.task), None)
        if kind == "http":
            return await self._http.run(attempt.claimed, attempt.deadline, attempt.secret)
        if kind == "celery":
            return await self._celery.run(attempt.claimed, attempt.deadline, attempt.secret)
        if kind == "docker" and self._docker is not None:
            return await self._docker.run(attempt)
        return failed(Reason.BAD_TASK, f"this worker cannot execute tasks of the kind {kind!r:.40}")


def _result(attempt: Attempt, outcome: Outcome | None) -> Result | None:
    if outcome is not None:
        return conclude(attempt.claimed, outcome)
    match attempt.stopped:
        case Stop.LOST:
            return None
        case Stop.DRAIN if "docker" in attempt.claimed.task:
            return resumed(attempt.claimed)  # the container goes on
        case Stop.DRAIN:
            given_up = failed(Reason.LEASE_EXPIRED, "the worker was stopped before the attempt ended")
            return conclude(attempt.claimed, given_up)
        case Stop.CANCELLED | None:
            return cancelled(attempt.claimed)
