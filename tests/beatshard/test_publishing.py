"""Whatever the broker does, every run handed in arrives, and `confirmed` is called when it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from kombu import Connection

from beatshard.amqp_publisher import AmqpPublisher
from support.publishing import arrived, hand_in, listening, publishing, some_runs
from support.rabbitmq import RabbitNode
from tocsin.model.status import Tier
from tocsin.queues import QUEUES


@pytest.fixture
def publisher(rabbitmq_vhost: str) -> Iterator[AmqpPublisher]:
    with publishing(rabbitmq_vhost) as publisher:
        yield publisher


@pytest.fixture
def vhost(rabbitmq_vhost: str) -> str:
    """The virtual host's name."""
    return rabbitmq_vhost.rpartition("/")[2]


def test_all_arrive_once_while_nothing_fails(publisher: AmqpPublisher, rabbitmq_vhost: str) -> None:
    runs = some_runs(1000)
    assert hand_in(publisher, runs).wait(30)
    assert publisher.backlog == 0
    assert arrived(rabbitmq_vhost) == Counter(run.run_id for run in runs)
    assert publisher.counts.confirmed == 1000


def test_connections_that_are_closed_lose_nothing(
    publisher: AmqpPublisher, rabbitmq_node: RabbitNode, rabbitmq_vhost: str, vhost: str
) -> None:
    batches = [some_runs(400) for _ in range(5)]
    for batch in batches:
        done = hand_in(publisher, batch)
        rabbitmq_node.ctl("close_all_connections", "--vhost", vhost, "test")
    assert done.wait(60)
    assert publisher.flush(60)
    assert set(arrived(rabbitmq_vhost)) == {run.run_id for batch in batches for run in batch}
    assert publisher.counts.failures >= 1


def test_a_message_without_a_queue_comes_back_and_is_sent_again(
    publisher: AmqpPublisher, rabbitmq_vhost: str
) -> None:
    assert hand_in(publisher, some_runs(1)).wait(30)
    with Connection(rabbitmq_vhost) as connection:
        connection.channel().queue_delete(QUEUES[Tier.DEFAULT])
    runs = some_runs(100)
    assert hand_in(publisher, runs).wait(30), "the broker acks what it returns: that is no confirm"
    assert arrived(rabbitmq_vhost) == Counter(run.run_id for run in runs)
    counts = publisher.counts
    assert counts.returned > 0
    assert (counts.connections, counts.failures) == (1, 0), "a returned message leaves no doubt"


def test_a_refused_message_is_sent_again_until_it_is_taken_and_holds_up_no_other(
    publisher: AmqpPublisher, rabbitmq_node: RabbitNode, rabbitmq_vhost: str, vhost: str
) -> None:
    assert hand_in(publisher, some_runs(1)).wait(30)
    policy = '{"max-length": 1, "overflow": "reject-publish"}'
    rabbitmq_node.ctl(
        "set_policy", "-p", vhost, "full", f"^{QUEUES[Tier.DEFAULT]}$", policy, "--apply-to", "queues"
    )
    runs = some_runs(500)
    done = hand_in(publisher, runs)
    assert not done.wait(1.0), "the queue is full, so nothing may be confirmed"
    assert hand_in(publisher, some_runs(100, pool="others")).wait(10), "another queue takes its messages"
    rabbitmq_node.ctl("clear_policy", "-p", vhost, "full")
    assert done.wait(60)
    assert {run.run_id for run in runs} <= set(arrived(rabbitmq_vhost))
    assert publisher.counts.refused >= 450
    assert publisher.counts.failures == 0


def test_a_channel_that_the_broker_closes_loses_nothing(
    publisher: AmqpPublisher, rabbitmq_node: RabbitNode, rabbitmq_vhost: str, vhost: str
) -> None:
    """403 while the user may not write."""
    with listening() as said:
        assert hand_in(publisher, some_runs(1, pool="first")).wait(30)
        rabbitmq_node.ctl("set_permissions", "-p", vhost, "guest", ".*", "^$", ".*")
        rabbitmq_node.ctl("close_all_connections", "--vhost", vhost, "test")
        runs = some_runs(300)
        done = hand_in(publisher, runs)
        said.wait_for("AccessRefused")
        assert not done.is_set()
        rabbitmq_node.ctl("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
        assert done.wait(60)
    assert set(arrived(rabbitmq_vhost)) == {run.run_id for run in runs}


@pytest.mark.slow
def test_a_broker_short_of_memory_is_waited_for(rabbitmq_node: RabbitNode, rabbitmq_vhost: str) -> None:
    """Longer than the confirm timeout and two heartbeats: the same connection, each message once, one line."""
    runs = some_runs(500)
    with listening() as said, publishing(rabbitmq_vhost, confirm_timeout=1) as publisher:
        assert hand_in(publisher, some_runs(1)).wait(30)
        arrived(rabbitmq_vhost)
        try:
            rabbitmq_node.ctl("set_vm_memory_high_watermark", "0.0001")
            done = hand_in(publisher, runs)
            said.wait_for("publisher_blocked")
            assert publisher.blocked
            assert not done.wait(12)
        finally:
            rabbitmq_node.ctl("set_vm_memory_high_watermark", "0.4")
        assert done.wait(30)
        assert said.count("publisher_blocked") == said.count("publisher_goes_on") == 1
        counts = publisher.counts
    assert arrived(rabbitmq_vhost) == Counter(run.run_id for run in runs)
    assert (counts.connections, counts.failures, counts.blocked) == (1, 0, 1)


def test_a_queue_that_somebody_declared_otherwise_is_used_as_it_is(
    publisher: AmqpPublisher, rabbitmq_vhost: str
) -> None:
    with Connection(rabbitmq_vhost) as connection:
        connection.channel().queue_declare("tocsin.default.billing", durable=True, auto_delete=False)
    runs = some_runs(10, pool="billing")
    assert hand_in(publisher, runs).wait(30)
    assert arrived(rabbitmq_vhost, "tocsin.default.billing") == Counter(run.run_id for run in runs)
    assert publisher.counts.failures == 0


def test_pools_and_slots_have_queues_of_their_own(rabbitmq_vhost: str) -> None:
    ours, theirs = some_runs(100), some_runs(100, pool="billing")
    with publishing(rabbitmq_vhost, spread=3) as publisher:
        assert hand_in(publisher, ours + theirs).wait(30)
    for slot in range(3):
        for runs, name in ((ours, "tocsin.default"), (theirs, "tocsin.default.billing")):
            expected = Counter(run.run_id for run in runs if run.partition % 3 == slot)
            assert expected
            assert arrived(rabbitmq_vhost, f"{name}.{slot}") == expected
