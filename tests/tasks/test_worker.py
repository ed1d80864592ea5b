"""Real worker processes on real brokers, from the message to the row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.processes import Process
from support.receiver import Receiver
from tasks.table import Table, publisher

Start = Callable[..., Process]


@pytest.fixture(params=["rabbitmq_vhost", "redis_url"])
def broker_url(request: pytest.FixtureRequest) -> str:
    """Both brokers; the RabbitMQ one is a virtual host of the test's own."""
    url: str = request.getfixturevalue(request.param)
    return url


def test_a_run_is_executed_once_and_recorded(
    broker_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    key = table.run(table.job(f"{receiver.url}/ok"))
    start_worker(broker_url)
    publish = publisher(broker_url)
    publish(key)
    publish(key)
    assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    (request,) = receiver.requests()
    assert request.key == str(key)
    assert table.outputs(key) == [(1, b"ok", 2, False)]
