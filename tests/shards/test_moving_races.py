"""Writers that go on while a range moves to and fro: what was acknowledged is there, in the shard that has it."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import Connection

from shards.moves import FIRST, LAST, databases_of, fresh_map, moved
from shards.names import in_shard
from tocsin.errors import ShardUnavailableError
from tocsin.ids import partition_of_name
from tocsin.model.job import JobDocument
from tocsin.store import job_edits, jobs, transactions
from tocsin.store.jobs import parse_ref
from tocsin.store.shards import engine_for

TASK = {"http": {"url": "http://127.0.0.1:1/"}}
WRITERS = 4


class Writer(threading.Thread):
    """Creates jobs and edits them, each with a map that it alone has; remembers what was acknowledged."""

    def __init__(self, sharded: str, names: list[str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._shards, self._names, self._halt = fresh_map(sharded), names, stop
        self.owners: dict[str, str] = {}
        self.refused = 0
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            count = 0
            while not self._halt.is_set():
                name = self._names[count % len(self._names)]
                count += 1
                self._write(name, f"owner-{count}")
        except BaseException as error:
            self.failed = error

    def _write(self, name: str, owner: str) -> None:
        doc = JobDocument.model_validate({"name": name, "task": TASK, "owner": owner, "schedule": "@daily"})

        def work(conn: Connection, _: object) -> Any:
            if name not in self.owners:
                return jobs.create(conn, doc, "default")
            ref = parse_ref(f"name:{name}", "default")
            return job_edits.edit(conn, ref, lambda old: {**old, "owner": owner})

        try:
            transactions.at(self._shards, partition_of_name("default", name), work)
        except ShardUnavailableError:
            self.refused += 1
        else:
            self.owners[name] = owner


def test_no_acknowledged_write_is_lost(sharded: str, shard_urls: list[str]) -> None:
    stop = threading.Event()
    names = in_shard(FIRST, LAST, 40)
    writers = [Writer(sharded, names[n::WRITERS], stop) for n in range(WRITERS)]
    with databases_of(shard_urls) as dbs:
        for writer in writers:
            writer.start()
        for source in (0, 1, 0, 1, 0):
            moved(sharded, source, 1 - source)
        stop.set()
        for writer in writers:
            writer.join(30)
            assert writer.failed is None
        acknowledged = {name: owner for writer in writers for name, owner in writer.owners.items()}
        assert len(acknowledged) == len(names)
        assert sum(writer.refused for writer in writers) > 0, "the moves were met"
        found = dbs[1].execute("SELECT name, owner FROM jobs").fetchall()
        assert dict(found) == acknowledged
        assert len(found) == len(names)
        triggers = dbs[1].execute("SELECT count(DISTINCT job_id), count(*) FROM triggers").fetchone()
        assert triggers == (len(names), len(names)), "each with its trigger"
        assert dbs[0].execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    for url in shard_urls:
        engine_for(url).dispose()
