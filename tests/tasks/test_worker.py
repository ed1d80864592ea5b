"""Real worker processes on real brokers, from the message to the row."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest

from support.processes import Process
from support.rabbitmq import RabbitNode
from support.receiver import Receiver
from tasks.table import Table, publisher

Start = Callable[..., Process]


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


def test_a_failed_attempt_is_retried_through_its_trigger(
    redis_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    policy = {"maxAttempts": 2, "initialSec": 30, "jitter": "none"}
    key = table.run(table.job(f"{receiver.url}/status/503", retryPolicy=policy))
    start_worker(redis_url)
    publish = publisher(redis_url)
    publish(key)
    assert table.wait(receiver, key, "scheduled", "failed") == "scheduled"
    assert table.attempts(key) == [(1, "http_status")]
    assert table.triggers(key) == [("run", 2, False)]
    for run, attempt in table.send_due([key]):
        publish(run, attempt)
    assert table.wait(receiver, key, "failed") == "failed"
    assert table.read(key, "attempt, reason, http_status") == (2, "http_status", 503)
    assert [r.headers["tocsin-attempt"] for r in receiver.requests(lambda r: bool(r.key))] == ["1", "2"]
    assert table.triggers(key) == []


def test_messages_that_cannot_be_read_are_rejected_and_harm_nobody(
    broker_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    worker = start_worker(broker_url)
    publish = publisher(broker_url)
    key = table.run(table.job(f"{receiver.url}/ok"))
    publish("run_nonsense")
    publish(key, "1")
    publish(key, True)
    publish(key, {"__type__": "datetime", "__value__": "x"})
    publish(key, 1, task="tocsin.run.unheard")
    publish(key)
    assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    worker.wait_for_line("does not name a run", skip=3)
    worker.wait_for_line("unknown task 'tocsin.run.unheard'")
    assert len(receiver.requests()) == 1
    assert worker.terminate() == 0
    # Nothing has been put back: a second worker receives nothing but the next run.
    second, other = start_worker(broker_url), table.run(table.job(f"{receiver.url}/ok"))
    publish(other)
    table.wait(receiver, other, "succeeded")
    assert "rejected" not in second.text()


@pytest.mark.parametrize("hint", [True, False])
def test_a_cancel_request_ends_the_attempt(
    redis_url: str, table: Table, receiver: Receiver, start_worker: Start, hint: bool
) -> None:
    key = table.run(table.job(f"{receiver.url}/hold"))
    # With a hint the heartbeat is too far away to be the one that brings it.
    start_worker(redis_url, run_lease=600 if hint else 3, heartbeat_interval=300 if hint else 1)
    publisher(redis_url)(key)
    receiver.wait_for()
    table.conn.execute("UPDATE runs SET cancel_requested = true")
    if hint:
        table.conn.execute("SELECT pg_notify('tocsin_cancel', %s)", (str(key),))
    assert table.wait(receiver, key, "cancelled", "succeeded", timeout=10) == "cancelled"
    assert table.read(key, "reason, attempt") == ("cancelled", 1)


def test_an_attempt_that_lost_its_lease_is_cut_and_its_result_discarded(
    redis_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    key = table.run(table.job(f"{receiver.url}/hold"))
    # The lease itself is far from its end: the heartbeat tells.
    worker = start_worker(redis_url, run_lease=600, heartbeat_interval=1)
    publisher(redis_url)(key)
    receiver.wait_for()
    wait_running(table, 1)
    table.conn.execute("UPDATE runs SET lease_token = gen_random_uuid(), lease_owner = 'another'")
    # The slot is free again only when the attempt was cut: the worker's row says so with its next beat.
    wait_running(table, 0)
    receiver.release()
    assert worker.terminate() == 0
    assert table.read(key, "status, lease_owner, finished_at") == ("running", "another", None)


def wait_running(table: Table, count: int) -> None:
    while table.conn.execute("SELECT running FROM workers").fetchone() != (count,):
        table.conn.execute("SELECT pg_sleep(0.05)")


REAP = """
UPDATE runs SET status = 'queued', attempt = attempt + 1, fired_at = clock_timestamp(), lease_owner = NULL,
       lease_token = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE status = 'running' AND lease_expires_at < clock_timestamp() RETURNING attempt
"""


def test_a_killed_worker_s_run_is_ended_once_by_another(
    broker_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    lease = {"run_lease": 2, "heartbeat_interval": 1}
    key = table.run(table.job(f"{receiver.url}/hold"))
    first = start_worker(broker_url, **lease)
    publish = publisher(broker_url)
    publish(key)
    receiver.wait_for()
    first.kill()
    assert table.read(key) == "running"
    while not (reaped := table.conn.execute(REAP).fetchall()):
        table.conn.execute("SELECT pg_sleep(0.05)")
    assert reaped == [(2,)]
    start_worker(broker_url, **lease)
    publish(key, 2)
    receiver.wait_for(count=2)
    receiver.release()
    assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    assert table.read(key, "attempt") == 2
    assert [r.headers["tocsin-attempt"] for r in receiver.requests(lambda r: bool(r.key))] == ["1", "2"]


def test_sigterm_lets_runs_finish_and_leaves_the_rest_to_others(
    broker_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    """One slot: the first run holds it, the second one's message goes back to the broker while the first drains."""
    first, second = (table.run(table.job(f"{receiver.url}/{path}")) for path in ("hold", "ok"))
    worker = start_worker(broker_url, worker_slots=1, drain_timeout=30)
    publish = publisher(broker_url)
    publish(first)
    receiver.wait_for()
    publish(second)
    worker.send_signal(signal.SIGTERM)
    worker.wait_for_line("draining 1 runs")
    assert table.read(second, "status, lease_token") == ("queued", None)
    other = start_worker(broker_url)
    assert table.wait(receiver, second, "succeeded", timeout=10) == "succeeded"
    receiver.release()
    assert worker.wait() == 0
    assert table.read(first) == "succeeded"
    assert other.terminate() == 0
    assert table.conn.execute("SELECT count(*) FROM workers").fetchone() == (0,)


def test_what_does_not_finish_in_the_drain_is_given_up_at_once(
    redis_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    again, last = (
        table.run(table.job(f"{receiver.url}/hold", retryPolicy={"maxAttempts": n, "initialSec": 0}))
        for n in (2, 1)
    )
    worker = start_worker(redis_url, drain_timeout=0.2)
    publish = publisher(redis_url)
    publish(again)
    publish(last)
    receiver.wait_for(count=2)
    assert worker.terminate() == 0
    assert table.read(again, "status, reason, lease_token") == ("scheduled", "lease_expired", None)
    assert table.attempts(again) == [(1, "lease_expired")]
    assert table.triggers(again) == [("run", 2, False)]
    assert table.read(last, "status, reason") == ("failed", "lease_expired")


def test_a_second_signal_gives_up_what_still_runs(
    redis_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    key = table.run(table.job(f"{receiver.url}/hold", retryPolicy={"maxAttempts": 2, "initialSec": 0}))
    worker = start_worker(redis_url, drain_timeout=600)
    publisher(redis_url)(key)
    receiver.wait_for()
    worker.send_signal(signal.SIGINT)
    worker.wait_for_line("draining 1 runs")
    worker.send_signal(signal.SIGINT)
    assert worker.wait(10) == 0
    assert table.read(key, "status, reason, lease_token") == ("scheduled", "lease_expired", None)


def test_a_third_signal_ends_the_worker_at_once(
    redis_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    key = table.run(table.job(f"{receiver.url}/hold"))
    worker = start_worker(redis_url, drain_timeout=600)
    publisher(redis_url)(key)
    receiver.wait_for()
    with table.conn.transaction():  # so that what is given up cannot be written
        table.conn.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
        worker.send_signal(signal.SIGTERM)
        worker.wait_for_line("draining 1 runs")
        worker.send_signal(signal.SIGTERM)
        worker.wait_for_line("1 runs given up")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 128 + signal.SIGTERM
    assert table.read(key) == "running"


def test_a_worker_consumes_the_tiers_it_is_told(
    broker_url: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    batch, critical = (table.run(table.job(f"{receiver.url}/ok")) for _ in range(2))
    worker = start_worker(broker_url, "--tier", "critical")
    worker.wait_for_line(r"tiers=critical$")
    publish = publisher(broker_url)
    publish(batch, queue="tocsin.batch")
    publish(critical, queue="tocsin.critical")
    table.wait(receiver, critical, "succeeded")
    assert table.read(batch) == "queued"
    start_worker(broker_url, "--tier", "batch", "--tier", "default")
    table.wait(receiver, batch, "succeeded")


def test_the_worker_runs_under_celery_s_own_command(
    broker_url: str, database_url: str, table: Table, receiver: Receiver
) -> None:
    key = table.run(table.job(f"{receiver.url}/ok"))
    command = [sys.executable, "-m", "celery", "-A", "tocsin_tasks", "worker", "-l", "INFO"]
    env = {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_BROKER_URL": broker_url}
    with Process(command, env=env, name="celery") as worker:
        worker.wait_for_line("ready")
        publisher(broker_url)(key)
        assert table.wait(receiver, key, "succeeded") == "succeeded"
        assert worker.terminate() == 0


def test_the_queues_are_quorum_queues_and_nothing_else_is_declared(
    rabbitmq_node: RabbitNode, rabbitmq_vhost: str, start_worker: Start
) -> None:
    start_worker(rabbitmq_vhost)
    vhost = rabbitmq_vhost.rpartition("/")[2]
    listed = rabbitmq_node.ctl("list_queues", "-p", vhost, "name", "type", "--no-table-headers", "--quiet")
    tocsin = sorted(line.split() for line in listed.splitlines() if line.startswith("tocsin."))
    assert tocsin == [[f"tocsin.{name}", "quorum"] for name in ("batch", "critical", "dead", "default")]
    assert "delayed" not in listed
