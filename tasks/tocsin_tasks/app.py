"""The Celery app of a worker, made from tocsin's settings.

`celery -A tocsin_tasks worker` finds the attribute `celery`, made from the environment when first asked for.
The queues are declared here with the arguments the publisher uses: they also switch Celery to a prefetch
count per consumer, which quorum queues require. That count holds for each tier's queue by itself.

With a Redis-compatible broker a message that is not acked within VISIBILITY_SECONDS is delivered again; a
message is acked when its claim is committed, long before that.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from celery import Celery
from kombu.entity import Exchange, Queue

from tocsin.model.status import Tier
from tocsin.queues import QUEUES, TASK_PREFIX, queue_arguments
from tocsin.settings import Settings, load
from tocsin_tasks.acks import Acks
from tocsin_tasks.consumer import ExecutorStep, TocsinConsumer
from tocsin_tasks.counters import Counters

if TYPE_CHECKING:
    from tocsin_tasks.executor import Executor
    from tocsin_tasks.strategy import Delivery

VISIBILITY_SECONDS = 3600
BROKER_HEARTBEAT_SECONDS = 60


class TocsinApp(Celery):  # type: ignore[misc]
    """A Celery app that hands its messages to an executor."""

    settings: Settings
    acks: Acks
    counters: Counters
    worker_id: str
    executor: Executor | None = None

    def start_executor(self, queues: tuple[str, ...]) -> None:
        """Start the thread that executes runs; `queues` are those that this worker consumes."""
        from tocsin_tasks.executor import Executor  # httpx and psycopg load only where runs are executed

        tiers = [tier for tier, queue in QUEUES.items() if queue in queues]
        self.executor = Executor(
            self.settings, worker_id=self.worker_id, acks=self.acks, counters=self.counters, tiers=tiers
        )
        self.executor.start()

    def stop_executor(self) -> None:
        """Drain and end the executor's thread."""
        if self.executor is not None:
            self.executor.stop()

    def submit(self, delivery: Delivery) -> None:
        """Hand a message over to the executor."""
        assert self.executor is not None
        self.executor.submit(delivery)


def make_app(settings: Settings) -> TocsinApp:
    """The app that these settings describe; it connects to nothing yet."""
    app = TocsinApp("tocsin_tasks", set_as_current=False)
    app.settings, app.acks, app.counters = settings, Acks(), Counters()
    app.worker_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
    app.conf.update(_configuration(settings))
    app.steps["worker"].add(ExecutorStep)
    app.task(name=f"{TASK_PREFIX}http", Strategy="tocsin_tasks.strategy:strategy", acks_late=True)(_run)
    return app


def _run(*_: object) -> None:
    """The name under which messages come; the strategy takes them, so this is never called."""
    raise RuntimeError("tocsin runs are executed by `tocsin worker`, not by a Celery pool")


def _configuration(settings: Settings) -> dict[str, Any]:
    urls = settings.broker_url.split(";")
    arguments = queue_arguments(urls[0])
    # Enough that the next batch is here while one is being claimed, no more than can be executed.
    prefetch = max(1, min(2 * settings.claim_batch, settings.worker_slots))
    configuration: dict[str, Any] = {
        "broker_url": urls,
        "broker_heartbeat": BROKER_HEARTBEAT_SECONDS,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_accept_content": ["json"],
        "task_ignore_result": True,
        "result_backend": None,
        "task_acks_late": True,
        "task_queues": [_queue(name, arguments) for name in QUEUES.values()],
        "task_default_queue": QUEUES[Tier.DEFAULT],
        "task_default_exchange": "",
        "task_create_missing_queues": False,
        "worker_pool": "solo",
        "worker_concurrency": 1,
        "worker_prefetch_multiplier": prefetch,
        "worker_consumer": f"{TocsinConsumer.__module__}:{TocsinConsumer.__qualname__}",
        "worker_enable_prefetch_count_reduction": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
    }
    if urls[0].startswith(("redis", "rediss")):
        configuration["broker_transport_options"] = {"visibility_timeout": VISIBILITY_SECONDS}
    return configuration


def _queue(name: str, arguments: dict[str, Any]) -> Queue:
    """A durable queue on the default exchange."""
    return Queue(name, Exchange(""), routing_key=name, durable=True, queue_arguments=dict(arguments))  # type: ignore[no-untyped-call]


def __getattr__(name: str) -> Any:
    """`celery`, made from the environment on first use."""
    if name == "celery":
        globals()["celery"] = app = make_app(load())
        return app
    raise AttributeError(name)
