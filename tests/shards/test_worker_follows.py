"""A worker with an old map: its claims, heartbeats and results reach the shard that has the runs by now.

The old rows are gone already, so nothing refuses it: its statements find nothing, and it must not take that for
a lost lease or a claim that another one won.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from shards.moves import FIRST, LAST, databases_of, fresh_map, moved
from support.processes import Process
from support.receiver import Receiver
from tasks.table import Table, publisher
from tocsin.clock import monotonic
from tocsin.ids import partition_of
from tocsin.settings import Settings
from tocsin.store.leases import Claimed, Lease
from tocsin_tasks.acks import Acks
from tocsin_tasks.attempts import Attempt, Attempts
from tocsin_tasks.counters import Counters
from tocsin_tasks.heartbeat import Heart
from tocsin_tasks.lane import Lane

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


def test_a_heartbeat_that_comes_too_late_cuts_nothing(sharded: str, tables: list[Table]) -> None:
    """The range moved, and the old rows went, after the worker had asked where it is."""
    key = tables[0].run(job_in_range(tables[0], "http://127.0.0.1:1/"))
    settings = Settings(database_url=sharded)
    lease = Lease(key=key, attempt=1, token=key.job_id)
    claimed = Claimed(
        lease=lease, job_name="job", task={}, retry_policy={}, timeout=60, limited=False, cancel_requested=False,
        lateness=0,
    )  # fmt: skip
    attempt = Attempt(claimed=claimed, deadline=monotonic() + 60, lease_end=monotonic() + 60)
    attempts = Attempts(1)

    async def ended(_: Attempt) -> None:
        """Nothing runs here."""

    async def beat() -> bool:
        shard = settings.shards.shards[0]
        lane = Lane(
            shard, settings, owner="worker", attempts=attempts, acks=Acks(), counters=Counters(),
            execute=ended, lane_of=lambda _: lane,
        )  # fmt: skip
        try:
            return await Heart(lane, attempts, settings).beat([attempt])
        finally:
            await lane.close()

    moved(sharded)
    assert asyncio.run(beat())
    assert attempt.stopped is None
    assert fresh_map(sharded).shard_of(key.partition).name == "0-511", "a map that was told nothing"
