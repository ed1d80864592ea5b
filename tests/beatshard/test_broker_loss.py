"""A broker that restarts, dies, stops or goes silent: the publisher goes on with it or with another, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from beatshard import publisher as publisher_module
from support.publishing import arrived, hand_in, listening, publishing, some_runs
from support.rabbitmq import RabbitCluster, RabbitNode
from support.relay import Relay
from tocsin.clock import monotonic
from tocsin.topology import HEARTBEAT


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[RabbitNode]:
    with RabbitNode(tmp_path / "rabbitmq") as node:
        yield node


@pytest.fixture
def vhost(rabbitmq_cluster: RabbitCluster) -> Iterator[str]:
    """A virtual host of the test's own in the cluster."""
    name = f"test-{uuid4().hex[:12]}"
    rabbitmq_cluster.nodes[0].add_vhost(name)
    yield name
    rabbitmq_cluster.heal()
    rabbitmq_cluster.nodes[0].delete_vhost(name)


@pytest.fixture
def first_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishers begin with the first broker they are given."""
    monkeypatch.setattr(publisher_module, "randrange", lambda _: 0)


@pytest.mark.slow
def test_a_broker_that_restarts_or_dies_and_comes_back(own_node: RabbitNode) -> None:
    batches = [some_runs(300) for _ in range(3)]
    with publishing(own_node.url) as publisher:
        assert hand_in(publisher, batches[0]).wait(30)
        done = hand_in(publisher, batches[1])
        own_node.restart()
        assert done.wait(60)
        own_node.kill()
        done = hand_in(publisher, batches[2])
        assert not done.wait(0.5)
        own_node.start()
        assert done.wait(90)
    assert set(arrived(own_node.url)) == {run.run_id for batch in batches for run in batch}


@pytest.mark.slow
def test_a_broker_that_stops_and_goes_on_is_given_up_after_the_confirm_timeout(own_node: RabbitNode) -> None:
    runs = some_runs(300)
    with listening() as said, publishing(own_node.url, confirm_timeout=1) as publisher:
        assert hand_in(publisher, some_runs(1)).wait(30)
        arrived(own_node.url)
        own_node.process.pause()
        done = hand_in(publisher, runs)
        said.wait_for("no confirm within", timeout=5)
        assert not done.is_set()
        own_node.process.resume()
        assert done.wait(60)
    assert set(arrived(own_node.url)) == {run.run_id for run in runs}


@pytest.mark.slow
def test_the_broker_of_the_connection_is_killed_amid_a_burst(
    rabbitmq_cluster: RabbitCluster, vhost: str
) -> None:
    runs = some_runs(5000)
    with (
        listening() as said,
        publishing(*rabbitmq_cluster.urls_of(vhost).split(";"), window=500) as publisher,
    ):
        assert hand_in(publisher, some_runs(1)).wait(60)
        node = rabbitmq_cluster.node_at(said.wait_for("publisher_connected"))
        done = hand_in(publisher, runs)
        node.process.send_signal(signal.SIGKILL)
        assert done.wait(60)
        other = rabbitmq_cluster.node_at(said.wait_for("publisher_connected", count=2))
        assert other is not node
        assert publisher.counts.failures >= 1
    assert {run.run_id for run in runs} <= set(arrived(other.url_of(vhost)))


@pytest.mark.slow
@pytest.mark.usefixtures("first_first")
@pytest.mark.parametrize("busy", [True, False])
def test_a_broker_that_goes_silent_is_noticed_in_time(
    rabbitmq_cluster: RabbitCluster, vhost: str, busy: bool
) -> None:
    """By the confirms while it publishes, by the heartbeats while it does not."""
    first, second, _ = rabbitmq_cluster.nodes
    runs = some_runs(2000)
    with Relay(first.port) as relay, listening() as said:
        through = f"amqp://guest:guest@127.0.0.1:{relay.port}/{vhost}"
        with publishing(through, second.url_of(vhost)) as publisher:
            assert hand_in(publisher, some_runs(1)).wait(60)
            relay.swallow_requests = relay.swallow_answers = True
            silent = monotonic()
            if busy:
                done = hand_in(publisher, runs)
            said.wait_for("publisher_connected", count=2, timeout=30)
            noticed = monotonic() - silent
            assert noticed < 2 * HEARTBEAT + 3
            assert busy or noticed > HEARTBEAT, "an idle connection has only the heartbeats"
            if not busy:
                done = hand_in(publisher, runs)
            assert done.wait(30)
    assert {run.run_id for run in runs} <= set(arrived(second.url_of(vhost)))
