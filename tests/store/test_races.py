"""Edits, pauses and deletes that meet the firing transaction at the instant itself.

The judge: inside the edit's transaction, once it holds its locks, the runs of the job are counted. A run of the
old version that appears after that is stale. The nominal time must not be lost either: an edit that keeps the
times runs it once, in one version or the other.
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from store.builder import Bench
from tocsin.ids import partition_of
from tocsin.model.job import JobDocument
from tocsin.store import job_edits, jobs, partitions, transactions
from tocsin.store.firing import fire, look_ahead
from tocsin.store.jobs import JobRef
from tocsin.store.shards import Shard, parse_shards

RACES = 17  # of each of six kinds, 102 in all
ROUNDS = 6  # at most: on a busy machine the first ones may all go the same way
HTTP = {"url": "http://127.0.0.1:1/"}


def _edit(conn: Connection, ref: JobRef) -> None:
    job_edits.edit(conn, ref, lambda doc: {**doc, "task": {"http": {**HTTP, "url": "http://127.0.0.1:2/"}}})


def _pause(conn: Connection, ref: JobRef) -> None:
    job_edits.set_paused(conn, ref, True)


def _delete(conn: Connection, ref: JobRef) -> None:
    job_edits.remove(conn, ref)


class Race:
    """One job that is due in a moment, one change to it, and a node that fires."""

    def __init__(self, bench: Bench, shard: Shard, number: int, overlap: str) -> None:
        self.bench, self.shard = bench, shard
        # The change comes around the instant: from 16 ms before it to 16 ms after it, in the next round twice that.
        self.nominal = bench.now() + timedelta(milliseconds=40)
        away = (2 * (number % RACES) - RACES + 1) * (1 + number // RACES)
        self.start_change = self.nominal + timedelta(milliseconds=away)
        doc = JobDocument.model_validate(
            {
                "name": f"race-{overlap}-{number}",
                "task": {"http": HTTP},
                "schedule": {"at": self.nominal.isoformat()},
                "concurrency": overlap,
            }
        )
        job = transactions.run(shard, lambda conn: jobs.create(conn, doc, "default"))
        self.job_id: UUID = job.job_id
        self.seen = -1

    def change(self, apply: Any) -> None:
        def work(conn: Connection) -> None:
            while transactions.database_now(conn) < self.start_change:
                pass
            apply(conn, JobRef(partition=partition_of(self.job_id), namespace="default", job_id=self.job_id))
            self.seen = conn.execute(
                text("SELECT count(*) FROM runs WHERE partition_id = :p AND job_id = :j"),
                {"p": partition_of(self.job_id), "j": self.job_id},
            ).scalar_one()
            # Held open for a moment, so that the node fires while the change is not committed yet.
            while transactions.database_now(conn) < self.start_change + timedelta(milliseconds=12):
                pass

        transactions.run(self.shard, work)

    def fire_until(self, end: datetime) -> None:
        while self.bench.now() < end:
            fire(self.bench.conn, self.bench.plans, self.bench.owned, limit=100)


@pytest.mark.parametrize("overlap", ["allow", "skip"])
@pytest.mark.parametrize("apply", [_edit, _pause, _delete])
def test_no_stale_run(bench: Bench, database_url: str, apply: Any, overlap: str) -> None:
    (shard,) = parse_shards(database_url).shards
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS * RACES):
        if number >= RACES and len(outcomes) == 2:
            break
        race = Race(bench, shard, number, overlap)
        bench.owned = {
            t.partition: t.epoch for t in partitions.take(bench.conn, [partition_of(race.job_id)], "n")
        }
        look_ahead(bench.conn, bench.plans, list(bench.owned), 5.0)
        editor = threading.Thread(target=race.change, args=(apply,))
        editor.start()
        race.fire_until(race.nominal + timedelta(milliseconds=60))
        editor.join(20)
        assert race.seen >= 0, "the change did not happen"
        fire(bench.conn, bench.plans, bench.owned, limit=100)
        versions = [version for (version,) in bench.runs(race.job_id, "job_version")]
        assert versions.count(1) == race.seen, f"race {number}: a stale run appeared"
        if apply is _edit:
            assert len(versions) == 1, f"race {number}: the nominal time has no run"
        else:
            assert versions == [1] * race.seen
        outcomes["fired first" if race.seen else "changed first"] += 1
    assert len(outcomes) == 2, f"the races were not close: {outcomes}"
