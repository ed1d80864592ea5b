"""A table of runs, and real worker processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.processes import Process
from tasks.table import Table
from tocsin.store.shards import connect


@pytest.fixture
def table(database_url: str) -> Iterator[Table]:
    conn = connect(database_url)
    try:
        yield Table(conn)
    finally:
        conn.close()


@pytest.fixture
def start_worker(database_url: str) -> Iterator[Callable[..., Process]]:
    """Starts a worker process and waits until it consumes: `start_worker(broker_url, run_lease=2, …)`."""
    with ExitStack() as stack:

        def start(broker_url: str, *options: str, **settings: object) -> Process:
            env = {f"TOCSIN_{name.upper()}": str(value) for name, value in settings.items()}
            env |= {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_BROKER_URL": broker_url}
            process = Process([sys.executable, "-m", "tocsin_tasks", *options], env=env, name="worker")
            stack.enter_context(process)
            process.wait_for_line(r"worker ready id=\S+ tiers=\S+", stream="stdout")
            return process

        yield start


@pytest.fixture(params=["rabbitmq_vhost", "redis_url"])
def broker_url(request: pytest.FixtureRequest) -> str:
    """Both brokers; the RabbitMQ one is a virtual host of the test's own."""
    url: str = request.getfixturevalue(request.param)
    return url
