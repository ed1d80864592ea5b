"""What a worker does with dead letters, deleted queues, dead brokers, a full house, pools and slots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from kombu import Connection

from support.processes import Process
from support.rabbitmq import RabbitCluster, RabbitNode
from support.receiver import Receiver
from support.relay import Relay
from tasks.table import Table, publisher
from tocsin.clock import monotonic
from tocsin.queues import DEAD
from tocsin.topology import HEARTBEAT

Start = Callable[..., Process]


def dead_letters(url: str, count: int) -> list[tuple[str, str]]:
    """Wait for so many dead letters and take them: why each died, and its body."""
    found: list[tuple[str, str]] = []

    def take(message: object) -> None:
        death = message.headers["x-death"][0]  # type: ignore[attr-defined]
        body = message.body  # type: ignore[attr-defined]
        found.append(
            (death["reason"], body if isinstance(body, str) else bytes(body).decode(errors="replace"))
        )

    with Connection(url) as connection:
        connection.connect()
        amqp, channel = connection.connection, connection.channel()
        channel.basic_consume(DEAD, no_ack=True, callback=lambda m: take(channel.message_to_python(m)))
        while len(found) < count:
            amqp.drain_events(timeout=20)
    return found


def put(url: str, body: bytes, **properties: object) -> None:
    """A message to the queue of the tier `default`, whatever it is."""
    with Connection(url) as connection:
        channel = connection.channel()
        channel.basic_publish(channel.prepare_message(body, **properties), routing_key="tocsin.default")


def test_what_cannot_be_read_ends_in_the_dead_letters(
    rabbitmq_vhost: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    worker = start_worker(rabbitmq_vhost)
    publish = publisher(rabbitmq_vhost)
    publish("run_nonsense")
    publish("run_" + "0" * 46, 1, task="tocsin.run.unheard")
    headers = {"task": "tocsin.run.http", "id": "x", "root_id": "x"}
    put(
        rabbitmq_vhost,
        b"{not json",
        content_type="application/json",
        content_encoding="utf-8",
        headers=headers,
    )
    put(rabbitmq_vhost, b"\x80\x04.", content_type="application/x-python-serialize", headers=headers)
    put(rabbitmq_vhost, b"hello", content_type="text/plain")
    letters = dead_letters(rabbitmq_vhost, 5)
    assert {reason for reason, _ in letters} == {"rejected"}
    bodies = [body for _, body in letters]
    assert {"{not json", "hello"} < set(bodies)
    assert "run_nonsense" in {json.loads(body)[0][0] for body in bodies if body.startswith("[[")}
    worker.wait_for_line("message rejected", skip=4)
    key = table.run(table.job(f"{receiver.url}/ok"))
    publish(key)
    assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"


def test_a_queue_that_is_deleted_is_made_again(
    rabbitmq_vhost: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    worker = start_worker(rabbitmq_vhost)
    with Connection(rabbitmq_vhost) as connection:
        connection.channel().queue_delete("tocsin.default")
    worker.wait_for_line("Connected to", skip=1)
    key = table.run(table.job(f"{receiver.url}/ok"))
    publisher(rabbitmq_vhost)(key)
    assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"


def test_pools_and_slots_are_consumed_by_those_who_serve_them(
    rabbitmq_vhost: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    """A worker of a pool leaves the others alone; one with a spread consumes the queue without a slot, too."""
    ours, plain, theirs = (table.run(table.job(f"{receiver.url}/ok")) for _ in range(3))
    publish = publisher(rabbitmq_vhost, pools="billing,default", queue_spread=2)
    publish(ours, queue="tocsin.default.billing.1")
    publish(plain, queue="tocsin.default.billing")
    publish(theirs, queue="tocsin.default")
    worker = start_worker(rabbitmq_vhost, "--pool", "billing", queue_spread=2)
    worker.wait_for_line("pools=billing$")
    for key in (ours, plain):
        assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    assert table.read(theirs) == "queued"
    start_worker(rabbitmq_vhost)
    assert table.wait(receiver, theirs, "succeeded") == "succeeded"


def test_a_full_worker_leaves_messages_to_one_that_is_not(
    broker_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    held = [table.run(table.job(f"{receiver.url}/hold")) for _ in range(2)]
    options = {"worker_slots": 2, "claim_batch": 10, "message_hold": 1}
    full = start_worker(broker_url, **options)
    publish = publisher(broker_url)
    for key in held:
        publish(key)
    receiver.wait_for(count=2)
    waiting = [table.run(table.job(f"{receiver.url}/ok")) for _ in range(2)]
    for key in waiting:
        publish(key)
    full.wait_for_line("go back to the broker")
    other = start_worker(broker_url, **options)
    for key in waiting:
        assert table.wait(receiver, key, "succeeded", timeout=20) == "succeeded"
    assert other.terminate() == 0
    receiver.release()
    later = [table.run(table.job(f"{receiver.url}/ok")) for _ in range(4)]
    for key in later:
        publish(key)
    for key in held + later:
        assert table.wait(receiver, key, "succeeded") == "succeeded"


@pytest.mark.slow
def test_no_message_waits_as_long_as_the_consumer_timeout(
    tmp_path: Path, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    """Runs longer than `consumer_timeout` in a worker that is full: the broker has nothing to complain of."""
    often = "[{rabbit, [{channel_tick_interval, 250}]}]."
    config = ["consumer_timeout = 4000"]
    with RabbitNode(tmp_path / "rabbitmq", config=config, advanced=often) as node:
        worker = start_worker(node.url, worker_slots=2, claim_batch=10, message_hold=1, drain_timeout=30)
        publish = publisher(node.url)
        slow = [table.run(table.job(f"{receiver.url}/slow?seconds=9")) for _ in range(2)]
        waiting = [table.run(table.job(f"{receiver.url}/slow?seconds=6")) for _ in range(4)]
        for key in slow + waiting:
            publish(key)
        for key in slow + waiting[:2]:
            assert table.wait(receiver, key, "succeeded") == "succeeded"
        receiver.wait_for(count=6)
        assert worker.terminate() == 0, "the drain is longer than the timeout, too"
        assert "PRECONDITION_FAILED" not in worker.text()
        assert "Connection to broker lost" not in worker.text()
    assert len(receiver.requests()) == 6


@pytest.fixture
def vhost(rabbitmq_cluster: RabbitCluster) -> Iterator[str]:
    """A virtual host of the test's own in the cluster."""
    name = f"test-{uuid4().hex[:12]}"
    rabbitmq_cluster.nodes[0].add_vhost(name)
    yield name
    rabbitmq_cluster.heal()
    rabbitmq_cluster.nodes[0].delete_vhost(name)


@pytest.mark.slow
def test_the_broker_of_the_connection_is_killed(
    rabbitmq_cluster: RabbitCluster, vhost: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    running, waiting = (table.run(table.job(f"{receiver.url}/{path}")) for path in ("hold", "ok"))
    worker = start_worker(rabbitmq_cluster.urls_of(vhost), worker_slots=1, claim_batch=10, message_hold=60)
    node = rabbitmq_cluster.node_at(worker.wait_for_line("Connected to .*")[0])
    others = [each for each in rabbitmq_cluster.nodes if each is not node]
    publish = publisher(others[0].url_of(vhost))
    publish(running)
    receiver.wait_for()
    publish(waiting)
    node.kill()
    after = worker.wait_for_line("Connected to .*", skip=1, timeout=60)[0]
    assert rabbitmq_cluster.node_at(after) in others
    receiver.release()
    for key in (running, waiting):
        assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    assert len(receiver.requests(lambda request: bool(request.key))) == 2


@pytest.mark.slow
def test_a_broker_that_goes_silent_is_left_for_another(
    rabbitmq_cluster: RabbitCluster, vhost: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    first, second, _ = rabbitmq_cluster.nodes
    with Relay(first.port) as relay:
        through = f"amqp://guest:guest@127.0.0.1:{relay.port}/{vhost}"
        worker = start_worker(through)
        relay.swallow_requests = relay.swallow_answers = True
        silent = monotonic()
        worker.wait_for_line("Connection to broker lost", timeout=30)
        assert HEARTBEAT < monotonic() - silent < 2 * HEARTBEAT + 4
    key = table.run(table.job(f"{receiver.url}/ok"))
    with Relay(first.port) as relay:
        through = f"amqp://guest:guest@127.0.0.1:{relay.port}/{vhost}"
        relay.swallow_requests = relay.swallow_answers = True
        start_worker(f"{through};{second.url_of(vhost)}")
        publisher(second.url_of(vhost))(key)
        assert table.wait(receiver, key, "succeeded", timeout=30) == "succeeded"
