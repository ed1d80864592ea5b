"""Executes container tasks: one coroutine per container, which waits and holds no thread.

An attempt places the run's container or adopts it (`placing`), waits until it has ended (`watch`), reads what it left
and removes it (`ending`), and only then reports. What happens to the container when the attempt is cut short:

- cancelled, or past its timeout: stopped with the image's signal, killed after the grace, removed.
- the worker drains: it goes on; the same attempt resumes at another worker, which adopts it.
- the lease is lost: it is left alone, for the next attempt may have adopted it already. If there is none, the
  janitor removes it.

The timeout counts from the start of the container, whoever started it. While the engine does not answer, a running
attempt waits for it, as long as its lease holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from docker import APIClient
from docker.errors import APIError

from tocsin import clock
from tocsin.errors import TocsinError
from tocsin.model.docker_policy import check as check_policy
from tocsin.model.docker_task import DockerTask
from tocsin.model.status import Reason
from tocsin.model.task import Task
from tocsin.settings import Settings
from tocsin_tasks.attempts import Attempt, Stop
from tocsin_tasks.containers import ending, placing, spec
from tocsin_tasks.containers.engine import Engine, EngineDownError, RefusedError
from tocsin_tasks.containers.images import Images, MissingImageError, PullError
from tocsin_tasks.containers.placing import LostError, Placed
from tocsin_tasks.containers.watch import Watch
from tocsin_tasks.outcome import Outcome, failed

logger = logging.getLogger(__name__)
T = TypeVar("T")
AGAIN_SECONDS = 1.0  # between two tries while the engine does not answer
KILLED_SECONDS = 30.0  # for a killed container to end
_CLIENT_FAULT = range(400, 500)
_REASONS: dict[type[TocsinError], Reason] = {
    MissingImageError: Reason.IMAGE_MISSING,
    PullError: Reason.IMAGE_PULL,
    EngineDownError: Reason.ENGINE,
}


class DockerRunner:
    """Shared by all attempts of a process."""

    def __init__(self, settings: Settings, engine: Engine, watch: Watch) -> None:
        self._policy, self._limit = settings.policy.docker, settings.output_limit
        self._engine, self._watch = engine, watch
        self._images = Images(engine)

    async def run(self, attempt: Attempt) -> Outcome:
        """See one attempt through. Only a cancellation is raised."""
        claimed = attempt.claimed
        try:
            task = Task.model_validate(claimed.task).docker
        except ValueError as error:
            return failed(
                Reason.BAD_TASK, f"this worker cannot read the job's container task ({type(error).__name__})"
            )
        assert task is not None
        problems = check_policy(self._policy.rules(claimed.owner), task, claimed.owner)
        if problems:
            return failed(Reason.REFUSED, "; ".join(problem.detail for problem in problems))
        try:
            return await _Container(self._engine, self._watch, self._images, attempt, task, self._limit).run()
        except LostError:
            attempt.stop(Stop.LOST)
            await asyncio.sleep(0)  # where the cancellation comes
            raise
        except RefusedError as error:
            reason = Reason.BAD_TASK if error.status in _CLIENT_FAULT else Reason.ENGINE
            return failed(reason, f"the engine refused the container: {error}")
        except tuple(_REASONS) as error:
            return failed(_REASONS[type(error)], str(error))


class _Container:
    """One attempt at one run's container."""

    def __init__(
        self, engine: Engine, watch: Watch, images: Images, attempt: Attempt, task: DockerTask, limit: int
    ) -> None:
        self._engine, self._watch, self._images = engine, watch, images
        self._attempt, self._task, self._limit = attempt, task, limit
        self._name = spec.name_of(attempt.key)
        self._given_up = False
        self._creating: asyncio.Future[Placed] | None = None

    async def run(self) -> Outcome:
        try:
            async with _until(self._attempt.deadline):
                placed = await self._place()
        except TimeoutError:
            await self._put_away()
            words = f"the container had not started within the timeout of {self._attempt.claimed.timeout:g} s"
            return failed(Reason.TIMEOUT, words)
        except asyncio.CancelledError:
            if self._attempt.stopped is Stop.CANCELLED:
                await self._put_away()
            raise
        try:
            timed_out = not await self._wait(placed.id, self._deadline(placed))
            if timed_out:
                await self._stop(placed.id)
        except asyncio.CancelledError:
            if self._attempt.stopped is Stop.CANCELLED:
                await self._put_away(placed)
            raise
        ended = await self._harvest(placed)
        return ending.outcome_of(ended, timeout=self._attempt.claimed.timeout if timed_out else None)

    def _mine(self) -> bool:
        """Whether the lease holds; asked in the engine's threads, too."""
        attempt = self._attempt
        return (
            not self._given_up
            and attempt.stopped not in (Stop.LOST, Stop.DRAIN)
            and clock.monotonic() < attempt.lease_end
        )

    async def _place(self) -> Placed:
        number = self._attempt.claimed.lease.attempt
        adopted = await self._engine.call(
            lambda client: placing.adopt(client, number, self._name, self._mine)
        )
        if adopted is not None:
            logger.info("%s: its container is adopted", self._attempt.key)
            return adopted
        image = await self._images.get(self._task)

        def work(client: APIClient) -> Placed:
            host = client.create_host_config(**spec.host_config(self._task, image.volumes))
            config = spec.container_config(self._attempt.claimed, self._task, image.id, host)
            return placing.place(client, number, config, self._mine)

        # Nobody who cancels this must part it from the container that it makes.
        self._creating = asyncio.ensure_future(self._engine.call(work))
        return await asyncio.shield(self._creating)

    def _deadline(self, placed: Placed) -> float:
        """On the monotonic clock; an adopted container has used some of its time."""
        if not placed.adopted:
            return self._attempt.deadline
        ran = _seconds_since(placed.started_at)
        return min(self._attempt.deadline, clock.monotonic() + self._attempt.claimed.timeout - ran)

    async def _wait(self, container: str, deadline: float) -> bool:
        """Wait for its end; False when the deadline came first."""
        event = self._watch.expect(container)
        event.set()  # it may have ended already
        try:
            async with _until(deadline):
                while True:
                    await event.wait()
                    event.clear()
                    if await self._patiently(lambda client: ending.has_ended(client, container)):
                        return True
        except TimeoutError:
            return False
        finally:
            self._watch.forget(container)

    async def _stop(self, container: str) -> None:
        """Ask it to stop, kill it after the grace. Raises LostError."""
        await self._patiently(lambda client: ending.send_signal(client, container, None))
        if not await self._wait(container, clock.monotonic() + self._task.stop_grace_sec):
            await self._patiently(lambda client: ending.send_signal(client, container, "SIGKILL"))
            if not await self._wait(container, clock.monotonic() + KILLED_SECONDS):
                logger.error("%s: its container was killed and does not end", self._attempt.key)

    async def _harvest(self, placed: Placed) -> ending.Ended:
        """Read and remove. A worker that drains, and a cancel that comes too late, wait for it."""
        work = asyncio.ensure_future(
            self._patiently(lambda client: ending.harvest(client, placed.id, self._limit))
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if self._attempt.stopped not in (Stop.DRAIN, Stop.CANCELLED):
                raise
            return await work

    async def _put_away(self, placed: Placed | None = None) -> None:
        """Stop and remove the container, if there is one; what fails is left to the janitor."""
        if placed is None:
            self._given_up = True  # the thread that is about to create or start it does not
            if self._creating is not None:
                with suppress(TocsinError, *_FAULTS):
                    placed = await self._creating
            self._given_up = False
        if placed is None:
            return
        container = placed.id
        try:
            await self._stop(container)
            await self._patiently(lambda client: ending.remove(client, container, force=True))
        except (TocsinError, *_FAULTS) as error:
            logger.warning("%s: its container was not removed: %s", self._attempt.key, error)

    async def _patiently(self, work: Callable[[APIClient], T]) -> T:
        """Call the engine, again while it does not answer, as long as the lease holds. Raises LostError."""

        def checked(client: APIClient) -> T:
            placing.check(self._mine_or_drain)
            return work(client)

        while True:
            try:
                return await self._engine.call(checked)
            except EngineDownError:
                await asyncio.sleep(AGAIN_SECONDS)

    def _mine_or_drain(self) -> bool:
        attempt = self._attempt
        return attempt.stopped is not Stop.LOST and clock.monotonic() < attempt.lease_end


_FAULTS = (APIError, ValueError)


def _until(deadline: float) -> asyncio.Timeout:
    """`deadline` is on the monotonic clock."""
    return asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - clock.monotonic())


def _seconds_since(text: str) -> float:
    """Seconds since an instant of the engine's, 0 for one that cannot be read or has not come yet."""
    try:
        at = datetime.fromisoformat(text[:19] + "+00:00")
    except ValueError:
        return 0.0
    return max(0.0, (clock.now() - at).total_seconds())
