"""The Celery app of a worker, made from tocsin's settings.

`celery -A tocsin_tasks worker` finds the attribute `celery`, made from the environment when first asked for.
The queues are declared by `tocsin.topology` on each connection, with the arguments the publisher uses. Celery
knows these arguments too: they switch it to a prefetch count per consumer, which quorum queues require. That
count holds for each queue by itself.

With a Redis-compatible broker a message that is not acked within VISIBILITY_SECONDS is delivered again; a
message is acked when its claim is committed, long before that.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from random import sample
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from celery import Celery

from tocsin import topology
from tocsin.model.status import Tier
from tocsin.model.task import KINDS
from tocsin.queues import OWN_QUEUES, TASK_PREFIX, consumed, is_amqp
from tocsin.settings import Settings, load
from tocsin_tasks.acks import Acks
from tocsin_tasks.consumer import ExecutorStep, TocsinConsumer
from tocsin_tasks.counters import Counters

if TYPE_CHECKING:
    from tocsin_tasks.containers.engine import Engine
    from tocsin_tasks.executor import Executor
    from tocsin_tasks.strategy import Delivery

VISIBILITY_SECONDS = 3600


class TocsinApp(Celery):  # type: ignore[misc]
    """A Celery app that hands its messages to an executor."""

    settings: Settings
    acks: Acks
    counters: Counters
    worker_id: str
    executor: Executor | None = None
    engine: Engine | None = None

    def declare(self, connection: Any) -> None:
        """Declare what this worker consumes, on a connection of kombu that is up."""
        names = tuple(self.amqp.queues.consume_from)
        topology.declare(connection, self.settings.broker_urls[0], names)

    def start_executor(self, queues: Sequence[str]) -> None:
        """Start the thread that executes runs; `queues` are those that this worker consumes."""
        from tocsin_tasks.executor import Executor  # httpx and psycopg load only where runs are executed

        self.open_engine()
        self.executor = Executor(
            self.settings,
            worker_id=self.worker_id,
            acks=self.acks,
            counters=self.counters,
            queues=queues,
            engine=self.engine,
        )
        self.executor.start()

    def open_engine(self) -> None:
        """Reach the container engine, if there shall be one. Raises InvalidError when it does not answer."""
        if self.settings.docker_url and self.engine is None:
            from tocsin_tasks.containers.engine import Engine  # the docker SDK loads only where it serves
            from tocsin_tasks.containers.janitor import owner_of

            engine = Engine(self.settings.docker_url)
            engine.open()
            self.engine, self.worker_id = engine, owner_of(self.worker_id, engine.identity)

    def stop_executor(self, meanwhile: Callable[[], None]) -> None:
        """Drain and end the executor's thread; `meanwhile` is called some times a second."""
        if self.executor is not None:
            self.executor.stop(meanwhile)

    def hurry(self) -> None:
        """Let a drain give up what still runs; nothing before the executor has started."""
        if self.executor is not None:
            self.executor.hurry()

    def submit(self, delivery: Delivery) -> None:
        """Hand a message over to the executor."""
        assert self.executor is not None
        self.executor.submit(delivery)


def make_app(settings: Settings, tiers: Sequence[Tier] = tuple(Tier)) -> TocsinApp:
    """The app that these settings describe, for these tiers; it connects to nothing yet."""
    kinds = ("", *OWN_QUEUES) if settings.docker_url else ("",)
    names = consumed(tiers, settings.pool_names, settings.queue_spread, kinds)
    app = TocsinApp("tocsin_tasks", set_as_current=False)
    app.settings, app.acks, app.counters = settings, Acks(), Counters()
    app.worker_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
    app.conf.update(_configuration(settings, names))
    app.steps["worker"].add(ExecutorStep)
    for kind in KINDS:
        app.task(name=f"{TASK_PREFIX}{kind}", Strategy="tocsin_tasks.strategy:strategy", acks_late=True)(_run)
    return app


def _run(*_: object) -> None:
    """The name under which messages come; the strategy takes them, so this is never called."""
    raise RuntimeError("tocsin runs are executed by `tocsin worker`, not by a Celery pool")


def _configuration(settings: Settings, queues: list[str]) -> dict[str, Any]:
    # In an order of its own, so that the workers spread over the brokers.
    urls = sample(settings.broker_urls, len(settings.broker_urls))
    # Enough that the next batch is here while one is being claimed, no more than can be executed.
    prefetch = max(1, min(2 * settings.claim_batch, settings.worker_slots))
    configuration: dict[str, Any] = {
        "broker_url": urls,
        "broker_heartbeat": topology.HEARTBEAT,
        "broker_connection_timeout": topology.CONNECT,
        "broker_transport_options": topology.transport_options(urls[0]),
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
        "task_queues": topology.queues(urls[0], queues, no_declare=is_amqp(urls[0])),
        "task_default_queue": queues[0],
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


def __getattr__(name: str) -> Any:
    """`celery`, made from the environment on first use."""
    if name == "celery":
        globals()["celery"] = app = make_app(load())
        return app
    raise AttributeError(name)
