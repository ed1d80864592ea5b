"""The fixtures on real services do what they promise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import redis
from kombu.connection import Connection

from support.databases import Databases, libpq
from support.rabbitmq import RabbitNode


def test_each_database_is_new_and_dropped_afterwards(
    new_database: Callable[..., str], databases: Databases
) -> None:
    first, second = new_database(migrated=False), new_database(migrated=False)
    assert first != second
    with contextlib.closing(psycopg.connect(libpq(first), autocommit=True)) as connection:
        connection.execute("CREATE TABLE mine ()")
        databases.drop(first.rsplit("/", 1)[1])  # although this connection is still open
    with psycopg.connect(libpq(second)) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'mine'").fetchone()
    assert found == (0,)


def test_the_template_is_copied_with_its_tables(databases: Databases) -> None:
    name = databases.create()
    try:
        with psycopg.connect(libpq(databases.server.url_of(name))) as connection:
            connection.execute("CREATE TABLE here AS SELECT 7 AS number")
        copy = databases.create(template=name)
        with psycopg.connect(libpq(databases.server.url_of(copy))) as connection:
            assert connection.execute("SELECT number FROM here").fetchone() == (7,)
        databases.drop(copy)
    finally:
        databases.drop(name)


def test_the_broker_keeps_and_returns(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("support-test", "value")
        assert client.getdel("support-test") == b"value"


def _publish(url: str, name: str) -> None:
    connect: Any = Connection
    with connect(url, transport_options={"confirm_publish": True}) as connection:
        connection.SimpleQueue(name).put({"n": 1})


def _consume(url: str, name: str) -> object:
    connect: Any = Connection
    with connect(url) as connection:
        message = connection.SimpleQueue(name).get(timeout=10)
        message.ack()
        return message.payload


def test_rabbitmq_publishes_and_consumes(rabbitmq: str) -> None:
    _publish(rabbitmq, "support-test")
    assert _consume(rabbitmq, "support-test") == {"n": 1}


def test_a_vhost_of_the_test_s_own(rabbitmq_vhost: str, rabbitmq_node: RabbitNode) -> None:
    _publish(rabbitmq_vhost, "support-test")
    assert _consume(rabbitmq_vhost, "support-test") == {"n": 1}
    assert rabbitmq_vhost.rsplit("/", 1)[1] in rabbitmq_node.ctl("list_vhosts").split()


def test_a_migrated_database_has_tables(database_url: str) -> None:
    with psycopg.connect(libpq(database_url)) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'jobs'").fetchone()
    assert found == (1,)


def test_a_killed_node_comes_back_with_its_messages(tmp_path: Path) -> None:
    with RabbitNode(tmp_path / "rabbitmq") as node:
        _publish(node.url, "kept")
        node.kill()
        assert not node.process.running
        node.start()
        assert _consume(node.url, "kept") == {"n": 1}
    assert not (tmp_path / "rabbitmq").exists()
