"""The golden test: what a publisher sends equals what Celery sends, and any Celery worker runs it."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from celery import Celery
from kombu import Connection, Message, Producer, Queue

from beatshard.amqp_publisher import AmqpPublisher
from beatshard.encode import body, frames, headers
from beatshard.plain_publisher import PlainPublisher
from beatshard.publisher import Publisher
from beatshard.watermark import Batch
from support.processes import Process
from tocsin import topology
from tocsin.clock import to_micros
from tocsin.embedded import EmbeddedBroker
from tocsin.model.status import Tier
from tocsin.queues import QUEUES, queue_arguments, task_name
from tocsin.store.partitions import QueuedRun

JOB = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
# Two properties are the sender's own: they must be there and well formed, not equal.
OWN = {"origin", "reply_to"}


def a_run(name: str = "nightly-close", attempt: int = 2, tier: Tier = Tier.DEFAULT) -> QueuedRun:
    at = to_micros(datetime(2026, 3, 29, 1, 30, tzinfo=UTC))
    return QueuedRun(
        partition=87, job_id=JOB, scheduled_us=at, attempt=attempt, tier=tier, task_kind="http", job_name=name
    )


@pytest.fixture(params=["rabbitmq", "embedded"])
def broker_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "rabbitmq":
        yield request.getfixturevalue("rabbitmq_vhost")
    else:
        with EmbeddedBroker() as broker:
            yield broker.url


def publisher_of(url: str) -> Publisher:
    if url.startswith("amqp"):
        return AmqpPublisher([url], window=100, confirm_timeout=10)
    return PlainPublisher([url])


def publish(url: str, *runs: QueuedRun) -> None:
    """Publish and wait for the confirm."""
    publisher = publisher_of(url)
    publisher.start()
    confirmed = threading.Event()
    publisher.publish(Batch(runs=list(runs), marks={}), lambda _: confirmed.set())
    assert confirmed.wait(30)
    assert publisher.flush(1)
    publisher.close()


def send_by_celery(url: str, run: QueuedRun) -> None:
    app = Celery("golden", broker=url, set_as_current=False)
    app.conf.update(task_queues=topology.queues(url), task_create_missing_queues=False)

    @app.task(name=task_name(run.task_kind))
    def task(run_id: str, attempt: int) -> None:
        """Only its name is sent."""

    task.apply_async(
        args=[run.run_id, run.attempt],
        task_id=run.run_id,
        queue=QUEUES[run.tier],
        kwargsrepr=repr({"job": run.job_name, "run": run.run_id, "attempt": run.attempt}),
    )
    app.close()


def fetch(url: str, tier: Tier = Tier.DEFAULT) -> Message:
    """Wait for the next message of the tier's queue and take it."""
    queue = Queue(QUEUES[tier], durable=True, queue_arguments=queue_arguments(url))
    with Connection(url) as connection, connection.SimpleQueue(queue, no_ack=True) as simple:
        return simple.get(timeout=20)


@pytest.mark.parametrize("name", ["nightly-close", 'it\'s "quoted" – naïve 時刻 {}'])
def test_the_message_equals_what_celery_sends(broker_url: str, name: str) -> None:
    run = a_run(name)
    send_by_celery(broker_url, run)
    golden = fetch(broker_url)
    publish(broker_url, run)
    ours = fetch(broker_url)

    assert json.loads(ours.body) == json.loads(golden.body)
    assert without(ours.headers) == without(golden.headers)
    assert set(ours.headers) == set(golden.headers)
    assert without(ours.properties) == without(golden.properties)
    assert set(ours.properties) == set(golden.properties)
    assert (ours.content_type, ours.content_encoding) == (golden.content_type, golden.content_encoding)
    assert re.fullmatch(r"gen\d+@\S+", ours.headers["origin"])
    assert UUID(ours.properties["reply_to"])


def without(table: dict[str, Any]) -> dict[str, Any]:
    """Without what is each sender's own; the delivery's place is the broker's."""
    return {k: v for k, v in table.items() if k not in OWN | {"delivery_tag", "delivery_info"}}


def test_flower_can_read_the_arguments() -> None:
    table = headers(a_run("it's"))
    assert ast.literal_eval(table["kwargsrepr"]) == {"job": "it's", "run": a_run().run_id, "attempt": 2}
    assert json.loads(json.dumps(body(a_run())))[0] == [a_run().run_id, 2]


def test_each_tier_has_its_queue(rabbitmq_vhost: str) -> None:
    publish(rabbitmq_vhost, *(a_run(tier=tier) for tier in Tier))
    for tier in Tier:
        assert fetch(rabbitmq_vhost, tier).headers["id"] == a_run().run_id


def test_the_frames_are_what_py_amqp_writes(rabbitmq_vhost: str) -> None:
    """The same message through kombu's producer, header by header, from the dictionaries of the plain path."""
    run = a_run()
    publish(rabbitmq_vhost, run)
    ours = fetch(rabbitmq_vhost)
    with Connection(rabbitmq_vhost) as connection:
        Producer(connection.channel()).publish(
            body(run),
            routing_key=QUEUES[Tier.DEFAULT],
            headers=headers(run),
            correlation_id=run.run_id,
            delivery_mode=2,
        )
    plain = fetch(rabbitmq_vhost)
    assert ours.headers == plain.headers
    assert ours.body == plain.body
    assert frames(run, QUEUES[Tier.DEFAULT], 1)[:1] == b"\x01"


OTHER_APP = """
from celery import Celery
from kombu import Exchange, Queue

app = Celery("other", broker={url!r})
app.conf.task_queues = [Queue({queue!r}, Exchange(""), routing_key={queue!r}, queue_arguments={arguments!r})]
app.conf.worker_hijack_root_logger = False

@app.task(name="tocsin.run.http", bind=True)
def run(self, run_id, attempt):
    request = self.request
    seen = [request.id == run_id, attempt, request.kwargsrepr, request.retries, request.eta]
    print("RAN " + " ".join(map(str, seen)), flush=True)
"""


def test_a_plain_worker_of_another_app_runs_it(broker_url: str, tmp_path: Path) -> None:
    queue = QUEUES[Tier.DEFAULT]
    source = OTHER_APP.format(url=broker_url, queue=queue, arguments=queue_arguments(broker_url))
    (tmp_path / "other_app.py").write_text(source, encoding="utf-8")
    publish(broker_url, a_run())
    command = [sys.executable, "-m", "celery", "-A", "other_app", "worker", "-P", "solo", "--without-gossip"]
    with Process([*command, "--without-mingle"], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}) as worker:
        line = worker.wait_for_line(r"RAN (.*)", timeout=60)[1]
        worker.terminate()
    assert line.startswith("True 2 {'job': 'nightly-close'")
    assert line.endswith("0 None")
