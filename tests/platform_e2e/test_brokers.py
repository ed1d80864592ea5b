"""The whole path while RabbitMQ loses nodes, queues and messages: every run is executed, once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from kombu import Connection

from platform_e2e.platform import Platform
from support.burst import make_burst
from support.rabbitmq import RabbitCluster, RabbitNode
from support.receiver import Receiver
from tocsin.queues import DEAD

RUNS = 2_000


@pytest.fixture
def on_a_cluster(
    database_url: str, rabbitmq_cluster: RabbitCluster
) -> Iterator[tuple[Platform, RabbitCluster]]:
    """A platform on a virtual host of its own, with all nodes to fail over to."""
    name = f"test-{uuid4().hex[:12]}"
    rabbitmq_cluster.nodes[0].add_vhost(name)
    with Platform(database_url, rabbitmq_cluster.urls_of(name)) as platform:
        yield platform, rabbitmq_cluster
    rabbitmq_cluster.heal()
    rabbitmq_cluster.nodes[0].delete_vhost(name)


@pytest.mark.slow
def test_a_rabbitmq_node_killed_amid_a_burst_costs_no_run(
    on_a_cluster: tuple[Platform, RabbitCluster], receiver: Receiver
) -> None:
    """The node that the beat node publishes to, with a share of the messages unconfirmed."""
    platform, cluster = on_a_cluster
    beat = platform.node(TOCSIN_PUBLISH_WINDOW="100")
    # No lease may run out here: 2,000 calls at once on a busy machine take their time, and none is to be made twice.
    platform.worker(TOCSIN_RUN_LEASE="30")
    node = cluster.node_at(beat.wait_for_line("publisher_connected .*")[0])
    make_burst(platform.database_url, f"{receiver.url}/ok", RUNS, platform.now() + timedelta(seconds=3))
    receiver.wait_for(count=1)
    node.process.send_signal(signal.SIGKILL)
    beat.wait_for_line("publisher_connected", skip=1, timeout=60)
    receiver.wait_for(count=RUNS, timeout=90)
    platform.wait(
        lambda: (
            not platform.database.execute("SELECT FROM runs WHERE status <> 'succeeded' LIMIT 1").fetchall()
        )
    )
    assert platform.database.execute("SELECT count(*) FROM runs").fetchone() == (RUNS,)
    keys = [request.key for request in receiver.requests()]
    assert (len(keys), len(set(keys))) == (RUNS, RUNS)


@pytest.fixture
def platform_and_node(
    database_url: str, rabbitmq_node: RabbitNode, rabbitmq_vhost: str
) -> Iterator[tuple[Platform, RabbitNode, str]]:
    with Platform(database_url, rabbitmq_vhost) as platform:
        yield platform, rabbitmq_node, rabbitmq_vhost


def test_a_run_whose_message_was_delivered_too_often_is_published_again(
    platform_and_node: tuple[Platform, RabbitNode, str], receiver: Receiver
) -> None:
    """The delivery limit makes a dead letter of the message; the run in Postgres does not mind."""
    platform, rabbit, url = platform_and_node
    first = platform.node()
    policy = ["set_policy", "-p", url.rpartition("/")[2], "few", "^tocsin", '{"delivery-limit": 2}']
    rabbit.ctl(*policy, "--apply-to", "queues")
    run_id = platform.trigger(platform.create("stormy", f"{receiver.url}/ok"))
    platform.wait(lambda: platform.run(run_id)["status"] == "queued")
    with Connection(url) as connection:
        channel = connection.channel()
        returns = 0
        while (letter := channel.basic_get(DEAD, no_ack=True)) is None:
            if (message := channel.basic_get("tocsin.default")) is not None:
                channel.basic_reject(message.delivery_tag, requeue=True)
                returns += 1
        assert returns == 3
        assert letter.headers["x-death"][0]["reason"] == "delivery_limit"
    assert platform.run(run_id)["status"] == "queued"
    assert first.terminate() == 0
    platform.worker()
    platform.node(TOCSIN_REPUBLISH_AFTER="1")
    assert platform.wait_for_end(run_id)["status"] == "succeeded"
    assert len(receiver.requests()) == 1


def test_a_job_s_pool_decides_who_executes_it_and_an_edit_moves_what_still_waits(
    platform: Platform, receiver: Receiver
) -> None:
    platform.node()
    platform.worker(TOCSIN_POOLS="first")
    job = platform.create(
        "pooled", f"{receiver.url}/status/503?times=1", pool="first", retryPolicy={"initial": "3s"}
    )
    run_id = platform.trigger(job)
    platform.wait(lambda: platform.run(run_id)["attempts"])
    answer = platform.client.patch(f"/jobs/{job}", json={"pool": "second"})
    assert answer.status_code == 200, answer.text
    platform.wait(lambda: platform.run(run_id)["status"] == "queued")
    platform.worker(TOCSIN_POOLS="second")
    assert platform.wait_for_end(run_id)["attempt"] == 2
