"""What a worker does when the broker or the database goes away for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from support.databases import Databases, libpq
from support.processes import Process
from support.rabbitmq import RabbitNode
from support.receiver import Receiver
from tasks.table import Table, publisher

Start = Callable[..., Process]


def test_after_a_lost_broker_connection_each_run_is_still_executed_once(
    rabbitmq_node: RabbitNode, rabbitmq_vhost: str, table: Table, receiver: Receiver, start_worker: Start
) -> None:
    """One slot: the second message waits unacked, and comes once more on the new connection."""
    held, waiting = (table.run(table.job(f"{receiver.url}/{path}")) for path in ("hold", "ok"))
    worker = start_worker(rabbitmq_vhost, worker_slots=1, claim_batch=10)
    publish = publisher(rabbitmq_vhost)
    publish(held)
    receiver.wait_for()
    publish(waiting)
    rabbitmq_node.ctl("close_all_connections", "--vhost", rabbitmq_vhost.rpartition("/")[2], "test")
    worker.wait_for_line("Connection to broker lost")
    worker.wait_for_line("Connected to", skip=1)
    receiver.release()
    for key in (held, waiting):
        assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    later = table.run(table.job(f"{receiver.url}/ok"))
    publish(later)
    table.wait(receiver, later, "succeeded")
    assert len(receiver.requests(lambda r: bool(r.key))) == 3
    assert "PRECONDITION_FAILED" not in worker.text()
    assert worker.terminate() == 0


@contextmanager
def closed(databases: Databases, url: str) -> Iterator[None]:
    """Nobody can connect to the database in this block, and the workers' connections are cut."""
    name = psycopg.conninfo.conninfo_to_dict(libpq(url))["dbname"]
    with psycopg.connect(libpq(databases.server.url_of("postgres")), autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND application_name = 'tocsin worker'",
            (name,),
        )
        try:
            yield
        finally:
            conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_what_ends_or_arrives_while_the_database_is_away_is_written_and_claimed_later(
    databases: Databases,
    database_url: str,
    redis_url: str,
    table: Table,
    receiver: Receiver,
    start_worker: Start,
) -> None:
    running, new = (table.run(table.job(f"{receiver.url}/{path}")) for path in ("hold", "ok"))
    worker = start_worker(redis_url, run_lease=600, heartbeat_interval=200)
    publish = publisher(redis_url)
    publish(running)
    receiver.wait_for()
    with closed(databases, database_url):
        publish(new)
        worker.wait_for_line("cannot be reached")
        receiver.release()
        worker.wait_for_line("cannot be reached", skip=1)  # the finish, after the claim
    for key in (running, new):
        assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
    assert len(receiver.requests(lambda r: bool(r.key))) == 2


def test_without_the_database_an_attempt_is_cut_when_its_lease_has_run_out(
    databases: Databases,
    database_url: str,
    redis_url: str,
    table: Table,
    receiver: Receiver,
    start_worker: Start,
) -> None:
    key = table.run(table.job(f"{receiver.url}/hold"))
    worker = start_worker(redis_url, run_lease=2, heartbeat_interval=1)
    publisher(redis_url)(key)
    receiver.wait_for()
    with closed(databases, database_url):
        worker.wait_for_line(f"{key} is cut: its lease is lost")
    assert table.read(key, "status, finished_at") == ("running", None)
    assert worker.terminate() == 0


@pytest.mark.slow
def test_messages_go_back_to_the_broker_when_the_shard_stays_away(
    databases: Databases,
    database_url: str,
    redis_url: str,
    table: Table,
    receiver: Receiver,
    start_worker: Start,
) -> None:
    key = table.run(table.job(f"{receiver.url}/ok"))
    worker = start_worker(redis_url)
    with closed(databases, database_url):
        publisher(redis_url)(key)
        worker.wait_for_line("1 messages go back to the broker")
    assert table.wait(receiver, key, "succeeded", "failed") == "succeeded"
