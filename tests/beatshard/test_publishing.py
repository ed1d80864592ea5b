"""Whatever the broker does, every run handed in arrives, and `confirmed` is called when it has."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from kombu import Connection

from beatshard.amqp_publisher import AmqpPublisher
from beatshard.watermark import Batch
from support.rabbitmq import RabbitNode
from tocsin.clock import now, to_micros
from tocsin.ids import new_job_id, partition_of
from tocsin.model.status import Tier
from tocsin.queues import QUEUES
from tocsin.store.partitions import QueuedRun


def some_runs(count: int) -> list[QueuedRun]:
    at = now()
    jobs = [new_job_id("default", f"job-{n}", at) for n in range(count)]
    return [
        QueuedRun(
            partition=partition_of(job), job_id=job, scheduled_us=to_micros(at), attempt=1, tier=Tier.DEFAULT,
            task_kind="http", job_name=f"job-{n}",
        )
        for n, job in enumerate(jobs)
    ]  # fmt: skip


@pytest.fixture
def publisher(rabbitmq_vhost: str) -> Iterator[AmqpPublisher]:
    publisher = AmqpPublisher([rabbitmq_vhost], window=50, confirm_timeout=10)
    publisher.start()
    yield publisher
    publisher.close()


def hand_in(publisher: AmqpPublisher, runs: list[QueuedRun]) -> threading.Event:
    done = threading.Event()
    publisher.publish(Batch(runs=runs, marks={}), lambda _: done.set())
    return done


def arrived(url: str) -> Counter[str]:
    """Empty the queue; how often each run ID was in it."""
    seen: Counter[str] = Counter()
    with Connection(url) as connection:
        channel = connection.channel()
        while (message := channel.basic_get(QUEUES[Tier.DEFAULT], no_ack=True)) is not None:
            seen[message.properties["correlation_id"]] += 1
    return seen


def test_all_arrive_once_while_nothing_fails(publisher: AmqpPublisher, rabbitmq_vhost: str) -> None:
    runs = some_runs(1000)
    assert hand_in(publisher, runs).wait(30)
    assert publisher.backlog == 0
    assert arrived(rabbitmq_vhost) == Counter(run.run_id for run in runs)


def test_connections_that_are_closed_lose_nothing(
    publisher: AmqpPublisher, rabbitmq_node: RabbitNode, rabbitmq_vhost: str
) -> None:
    vhost = urlsplit(rabbitmq_vhost).path.lstrip("/")
    batches = [some_runs(400) for _ in range(5)]
    for batch in batches:
        done = hand_in(publisher, batch)
        rabbitmq_node.ctl("close_all_connections", "--vhost", vhost, "test")
    assert done.wait(60)
    assert publisher.flush(60)
    assert set(arrived(rabbitmq_vhost)) == {run.run_id for batch in batches for run in batch}


def test_a_message_without_a_queue_comes_back_and_is_sent_again(
    publisher: AmqpPublisher, rabbitmq_vhost: str
) -> None:
    assert hand_in(publisher, some_runs(1)).wait(30)
    with Connection(rabbitmq_vhost) as connection:
        connection.channel().queue_delete(QUEUES[Tier.DEFAULT])
    runs = some_runs(100)
    assert hand_in(publisher, runs).wait(30), "the broker acks what it returns: that is no confirm"
    assert set(arrived(rabbitmq_vhost)) == {run.run_id for run in runs}


def test_a_refused_message_is_sent_again_until_it_is_taken(
    publisher: AmqpPublisher, rabbitmq_node: RabbitNode, rabbitmq_vhost: str
) -> None:
    vhost = urlsplit(rabbitmq_vhost).path.lstrip("/")
    assert hand_in(publisher, some_runs(1)).wait(30)
    policy = '{"max-length": 1, "overflow": "reject-publish"}'
    rabbitmq_node.ctl("set_policy", "-p", vhost, "full", "^tocsin", policy, "--apply-to", "queues")
    runs = some_runs(500)
    done = hand_in(publisher, runs)
    assert not done.wait(1.0), "the queue is full, so nothing may be confirmed"
    rabbitmq_node.ctl("clear_policy", "-p", vhost, "full")
    assert done.wait(60)
    assert {run.run_id for run in runs} <= set(arrived(rabbitmq_vhost))
