"""Executes Celery tasks: sends the message that the team's own app would send, and is done when the broker has it.

With TOCSIN_CELERY_APP the app is imported, and its routes, queues and serializer are used; without it a plain app
sends to the job's queue, else to `celery`. The run ID is the task ID, so an attempt that is repeated is seen as the
same task. On RabbitMQ each message is confirmed; a queue that is not there is declared as Celery declares it. The
calls block, so a few threads make them.

With `completion: callback` the message carries the run's address and one-time token (`tracking`), and the run is
handed over as an HTTP call that was answered 202 is (`tocsin.store.callbacks`).

Weaknesses: without it the message is not tracked beyond the broker. Whoever reads the team's broker can report.
A worker that dies between sending and recording sends
again with the next attempt. `expires` counts from the sending, not from the nominal time.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery
from celery.app.utils import find_app
from kombu.exceptions import EncodeError, OperationalError

from tocsin import clock, topology
from tocsin.callback_token import callback_token
from tocsin.errors import InvalidError, Problem
from tocsin.model.celery_task import CeleryTask
from tocsin.model.policy import Failure
from tocsin.model.status import Reason
from tocsin.model.task import Task
from tocsin.queues import is_amqp
from tocsin.settings import Settings
from tocsin.store.leases import Claimed
from tocsin_tasks.outcome import Outcome, failed
from tocsin_tasks.tracking import TOKEN_HEADER, URL_HEADER

log = logging.getLogger(__name__)
_THREADS = 4
_RETRY = {"max_retries": 1, "interval_start": 0.1}  # further tries are the job's


class CeleryRunner:
    """Shared by all attempts of a process; the app is loaded with the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="celery-send")
        self._app: Celery | None = None
        self._api = (settings.api_public_url or settings.api_url).rstrip("/")

    async def close(self) -> None:
        """End the threads and the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, claimed: Claimed, deadline: float, secret: bytes) -> Outcome:
        """Send it; `deadline` is on the monotonic clock. Only a cancellation is raised."""
        try:
            task = Task.model_validate(claimed.task).celery
        except ValueError as error:
            task, words = None, type(error).__name__
        if task is None:
            return failed(Reason.BAD_TASK, f"this worker cannot read the job's Celery task ({words})")
        headers = {
            **task.headers,
            **(self._callback(claimed, secret) if task.completion == "callback" else {}),
        }
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(loop.time() + deadline - clock.monotonic()):
                await loop.run_in_executor(self._threads, self._send, task, str(claimed.lease.key), headers)
        except TimeoutError:
            return Outcome(
                failure=Failure(reason=Reason.TIMEOUT),
                error="the broker did not take the message within the timeout",
            )
        except EncodeError as error:
            return failed(Reason.BAD_TASK, f"the arguments cannot be encoded: {error}")
        except (OperationalError, OSError) as error:
            return failed(
                Reason.CONNECTION, f"the broker did not take the message: {type(error).__name__}: {error}"
            )
        return Outcome(waits=task.completion == "callback")

    def _callback(self, claimed: Claimed, secret: bytes) -> dict[str, str]:
        return {
            URL_HEADER: f"{self._api}/v1/runs/{claimed.lease.key}/complete",
            TOKEN_HEADER: callback_token(secret),
        }

    def _send(self, task: CeleryTask, run_id: str, headers: dict[str, Any]) -> None:
        app = self._app = self._app or app_of(self._settings)
        options: dict[str, Any] = {
            "queue": task.queue,
            "exchange": task.exchange,
            "routing_key": task.routing_key,
            "priority": task.priority,
            "expires": task.expires_sec,
            "headers": headers or None,
        }
        app.send_task(
            task.name,
            args=list(task.args),
            kwargs=dict(task.kwargs),
            task_id=run_id,
            ignore_result=False,
            retry=True,
            retry_policy=_RETRY,
            **{name: value for name, value in options.items() if value is not None},
        )


def app_of(settings: Settings) -> Celery:
    """The app that sends: the team's own, or a plain one. Raises InvalidError when it cannot be imported."""
    if settings.celery_app:
        try:
            app = find_app(settings.celery_app)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidError(
                [
                    Problem(
                        pointer="TOCSIN_CELERY_APP",
                        code="setting",
                        detail=f"the Celery app {settings.celery_app!r} cannot be imported: {error}",
                        fix="name it as `celery -A` takes it, and start the worker where it can be imported",
                    )
                ]
            ) from error
    else:
        app = Celery("tocsin-sender", set_as_current=False)
        app.conf.update(broker_url=settings.broker_urls, task_ignore_result=True)
    urls = app.conf.broker_url or settings.broker_urls[0]
    first = urls if isinstance(urls, str) else urls[0]
    if is_amqp(first.split(";")[0]):
        given = dict(app.conf.broker_transport_options or {})
        app.conf.broker_transport_options = {
            **topology.transport_options(first),
            **given,
            "confirm_publish": True,
        }
    return app
