"""One shard's loop on a real database, with a coordinator and a publisher that do what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from beatshard.publisher import Confirmed
from beatshard.shard_loop import ShardLoop
from beatshard.watermark import Batch
from store.builder import Bench
from tocsin.clock import monotonic
from tocsin.ids import partition_of
from tocsin.settings import Settings
from tocsin.store import partitions
from tocsin.store.shards import connect


@dataclass
class Given:
    """A coordinator that gives what the test says."""

    partitions: set[int] = field(default_factory=set)
    moving: set[int] = field(default_factory=set)
    node_id: str = "node"
    tick_interval: float = 1.0

    def tick(self) -> None:
        """Nothing changes by itself."""

    def held(self) -> frozenset[int]:
        return frozenset(self.partitions)

    def surplus(self) -> frozenset[int]:
        return frozenset(self.moving & self.partitions)

    def release(self, partitions: Collection[int]) -> None:
        self.partitions -= set(partitions)

    def members(self) -> frozenset[str]:
        return frozenset({self.node_id})

    def close(self) -> None:
        """Nothing to leave."""


@dataclass
class Held:
    """A publisher that confirms when it is told to."""

    batches: list[tuple[Batch, Confirmed]] = field(default_factory=list)
    connected: bool = True
    backlog: int = 0

    def start(self) -> None:
        """No thread."""

    def publish(self, batch: Batch, confirmed: Confirmed) -> None:
        self.batches.append((batch, confirmed))

    def confirm(self, number: int) -> None:
        batch, confirmed = self.batches[number]
        confirmed(batch)

    def flush(self, timeout: float) -> bool:
        return threading.Event().wait(timeout)  # another shard always has something under way

    def close(self) -> None:
        """No thread."""

    @property
    def jobs(self) -> list[UUID]:
        return [run.job_id for batch, _ in self.batches for run in batch.runs]


@dataclass
class Stage:
    """The loop under test and all around it."""

    bench: Bench
    url: str
    given: Given = field(default_factory=Given)
    publisher: Held = field(default_factory=Held)
    made: list[ShardLoop] = field(default_factory=list)

    def loop(self, **settings: object) -> ShardLoop:
        # No watermark is written but by the test: a round comes long before the next second.
        made = Settings(database_url=self.url, **settings)  # type: ignore[arg-type]
        self.made.append(ShardLoop(made.shards.shards[0], made, self.given, self.publisher))
        return self.made[-1]

    def give(self, *jobs: UUID) -> None:
        self.given.partitions |= {partition_of(job) for job in jobs}

    def watermark(self, job: UUID) -> tuple[int, datetime | None]:
        row = self.bench.conn.execute(
            "SELECT epoch, nullif(watermark, '-infinity') FROM partitions WHERE partition_id = %s",
            (partition_of(job),),
        ).fetchone()
        assert row is not None
        return row[0], row[1]


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    with connect(database_url) as conn:
        stage = Stage(Bench(conn), database_url)
        yield stage
        for loop in stage.made:
            loop._forget()


def rounds(loop: ShardLoop, until: Callable[[], bool], count: int = 50) -> None:
    """Run rounds until something is true, `count` at most."""
    for _ in range(count):
        loop.run_once(monotonic())
        if until():
            return


def late_jobs(bench: Bench, count: int) -> list[UUID]:
    """Jobs that should have run half a minute ago, each once."""
    then = bench.now() - timedelta(seconds=30)
    return [bench.job(then, schedule={"at": then.isoformat()}) for _ in range(count)]


def test_what_is_on_time_does_not_wait_behind_what_is_late(stage: Stage) -> None:
    late = late_jobs(stage.bench, 60)
    now = stage.bench.now() - timedelta(seconds=1)
    prompt = stage.bench.job(now, schedule={"at": now.isoformat()})
    others = [job for job in late if partition_of(job) != partition_of(prompt)]
    stage.give(prompt, *others)
    loop = stage.loop(recovery_rate=5)
    loop.run_once(monotonic())
    assert prompt in stage.publisher.jobs
    assert len(stage.publisher.jobs) <= 1 + 5 + 5, "what is late comes at its own rate"


def test_what_is_late_is_fired_in_the_end(stage: Stage) -> None:
    late = late_jobs(stage.bench, 40)
    stage.give(*late)
    loop = stage.loop(recovery_rate=1000)
    rounds(loop, lambda: len(stage.publisher.jobs) == 40)
    assert sorted(stage.publisher.jobs) == sorted(late)


def test_a_takeover_in_pages_marks_nothing_before_its_last_page(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs of one transaction share one `fired_at`: a page of them says nothing about the rest."""
    monkeypatch.setattr("beatshard.ownership._PAGE", 2)
    at = stage.bench.now()
    job = stage.bench.job()
    stage.bench.conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier,"
        " task_kind, fired_at) SELECT %s, %s, %s + n * interval '1 ms', 'queued', 'schedule', 1, 1, 'default',"
        " 'http', %s FROM generate_series(1, 3) n",
        (partition_of(job), job, at, at),
    )
    stage.give(job)
    loop = stage.loop()
    loop.run_once(monotonic())
    assert [len(batch.runs) for batch, _ in stage.publisher.batches] == [2, 1]
    stage.publisher.confirm(0)
    loop._out.write_marks(loop._conn, loop._ownership.owned)
    assert stage.watermark(job)[1] is None or stage.watermark(job)[1] < at
    stage.publisher.confirm(1)
    loop._out.write_marks(loop._conn, loop._ownership.owned)
    assert stage.watermark(job)[1] == at


def test_confirms_from_before_an_error_do_not_cost_the_partition_again(stage: Stage) -> None:
    now = stage.bench.now() - timedelta(seconds=1)
    job = stage.bench.job(now, schedule={"at": now.isoformat()})
    stage.give(job)
    loop = stage.loop()
    rounds(loop, lambda: bool(stage.publisher.batches))
    loop._forget()  # as after an error of Postgres
    loop.run_once(monotonic())
    epoch = stage.watermark(job)[0]
    assert len(stage.publisher.batches) == 2, "taken again, published again"
    for number in (0, 1):
        stage.publisher.confirm(number)
        loop._next["mark"] = 0.0
        loop.run_once(monotonic())
        loop.run_once(monotonic())
        assert loop._ownership.owned[partition_of(job)] == epoch == stage.watermark(job)[0]
    assert stage.watermark(job)[1] is not None


def test_leaving_waits_for_this_shard_alone(stage: Stage) -> None:
    now = stage.bench.now() - timedelta(seconds=1)
    job = stage.bench.job(now, schedule={"at": now.isoformat()})
    stage.give(job)
    loop = stage.loop()
    rounds(loop, lambda: bool(stage.publisher.batches))
    stage.publisher.confirm(0)
    stage.publisher.backlog = 5  # of another shard
    stage.given.moving = set(stage.given.partitions)
    started = monotonic()
    loop.run_once(started)
    assert monotonic() - started < 2.0
    assert stage.given.partitions == set()
    assert stage.watermark(job)[1] is not None, "what was confirmed is remembered before leaving"


def test_a_node_that_stops_inside_a_transaction_does_not_hold_its_partitions(stage: Stage) -> None:
    """As under SIGSTOP: its locks must fall before a takeover has waited long."""
    job = stage.bench.job()
    stage.give(job)
    loop = stage.loop()
    loop.run_once(monotonic())
    conn = loop._conn
    assert conn is not None
    with conn.transaction(force_rollback=True):
        owned, _ = partitions.check_epochs(conn, loop._ownership.owned)
        assert owned
        stage.bench.conn.execute("SET lock_timeout = '10s'")
        stage.bench.take(partition_of(job), node="other")
        conn.close()
    assert stage.watermark(job)[0] > loop._ownership.owned[partition_of(job)]


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue"])
def test_a_job_that_runs_every_second_catches_up(stage: Stage, overlap: str) -> None:
    """Whatever its overlap policy: not one nominal time a look, which would never reach the present."""
    base = stage.bench.now().replace(microsecond=0) - timedelta(seconds=60)
    job = stage.bench.job(
        base,
        schedule={"everySec": 1, "anchor": base.isoformat()},
        concurrency={"overlap": overlap, "max": 1000},
        catchUp="all",
    )
    stage.give(job)
    loop = stage.loop(poll_interval=10)

    def caught_up() -> bool:
        ((due,),) = stage.bench.triggers(job, "scheduled_at")
        return bool(due > stage.bench.now() - timedelta(seconds=1))

    for _ in range(100):
        loop._agenda.spend(-1000)  # the rate of recovery is not what is asked here
        loop.run_once(monotonic())
        if caught_up():
            break
    assert caught_up()
    assert len(stage.bench.runs(job)) >= 60
