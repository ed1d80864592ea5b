"""A worker with an old map: its claims, heartbeats and results reach the shard that has the runs by now.

The old rows are gone already, so nothing refuses it: its statements find nothing, and it must not take that for
a lost lease or a claim that another one won.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from shards.moves import FIRST, LAST, databases_of, moved
from support.processes import Process
from support.receiver import Receiver
from tasks.table import Table, publisher
from tocsin.ids import partition_of

Start = Callable[..., Process]


@pytest.fixture
def tables(shard_urls: list[str]) -> Iterator[list[Table]]:
    with databases_of(shard_urls) as connections:
        yield [Table(conn) for conn in connections]


@pytest.fixture
def start(sharded: str) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(broker_url: str, **settings: object) -> Process:
            env = {f"TOCSIN_{name.upper()}": str(value) for name, value in settings.items()}
            env |= {"TOCSIN_DATABASE_URL": sharded, "TOCSIN_BROKER_URL": broker_url}
            process = stack.enter_context(
                Process([sys.executable, "-m", "tocsin_tasks"], env=env, name="worker")
            )
            process.wait_for_line(r"worker ready id=\S+", stream="stdout")
            return process

        yield begin


def job_in_range(table: Table, url: str) -> object:
    return next(j for j in iter(lambda: table.job(url), None) if FIRST <= partition_of(j) <= LAST)


def test_a_claim_follows(
    sharded: str, rabbitmq_vhost: str, tables: list[Table], receiver: Receiver, start: Start
) -> None:
    # No heartbeat comes in the time of the test: only the claim itself can tell the worker.
    worker = start(rabbitmq_vhost, run_lease=600, heartbeat_interval=200)
    key = tables[0].run(job_in_range(tables[0], f"{receiver.url}/ok"))
    moved(sharded)
    publisher(rabbitmq_vhost)(key)
    assert tables[1].wait(receiver, key, "succeeded", "failed") == "succeeded"
    assert tables[1].read(key, "attempt") == 1
    assert worker.terminate() == 0


@pytest.mark.parametrize("heartbeats", [200, 0.5])
def test_a_run_in_progress_follows(
    sharded: str,
    rabbitmq_vhost: str,
    tables: list[Table],
    receiver: Receiver,
    start: Start,
    heartbeats: float,
) -> None:
    """Claimed in the old shard, renewed and finished in the new one."""
    worker = start(rabbitmq_vhost, run_lease=max(2, 3 * heartbeats), heartbeat_interval=heartbeats)
    key = tables[0].run(job_in_range(tables[0], f"{receiver.url}/hold"))
    publisher(rabbitmq_vhost)(key)
    receiver.wait_for()
    moved(sharded)
    if heartbeats < 1:
        before = tables[1].read(key, "lease_expires_at")
        while tables[1].read(key, "lease_expires_at") == before:
            assert worker.running
            assert tables[1].now() < before, "no heartbeat has come to the new shard"
    receiver.release()
    assert tables[1].wait(receiver, key, "succeeded", "failed") == "succeeded"
    assert tables[1].read(key, "attempt") == 1
    assert len(receiver.requests(lambda r: bool(r.key))) == 1
    assert "lease is lost" not in worker.text()
