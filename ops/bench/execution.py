"""How many runs a second one worker process executes, from the message to the final row.

    python ops/bench/execution.py [--broker URL] [--runs N] [--kind noop|http] [--workers N] [--batch N]

Starts a PostgreSQL with fsync on and, without --broker, the embedded broker; queues N runs and their messages;
starts the workers and reads how long the rows take to become final. `noop` is a task of a kind that the worker
does not know: claimed, refused, recorded, without any network call. `http` calls a small server beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import psycopg

from tocsin.clock import to_micros
from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres
from tocsin.ids import RunKey, new_job_id, partition_of
from tocsin.model.job import JobDocument
from tocsin.queues import QUEUES
from tocsin.settings import Settings
from tocsin.store.migrate import upgrade
from tocsin.store.shards import connect
from tocsin_tasks.app import make_app

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def serve() -> None:
    """A server that answers every request with `ok`."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def queue_runs(conn: psycopg.Connection[Any], kind: str, url: str, count: int) -> list[RunKey]:
    """Jobs of one run each, as at the top of an hour."""
    at = datetime.now(UTC)
    http = {"http": {"url": url, "method": "GET"}}
    definition = JobDocument.model_validate({"name": "bench", "task": http}).document()
    if kind == "noop":
        definition["task"] = {"noop": {}}
    ids = [new_job_id("default", f"job-{n}", at) for n in range(count)]
    arrays = ([partition_of(i) for i in ids], ids, [f"job-{n}" for n in range(count)])
    conn.execute(
        "INSERT INTO jobs (partition_id, job_id, namespace, name, owner, definition, task_kind, tier, timeout_us,"
        " overlap, max_running, queue_limit) SELECT p, j, 'default', n, 'bench', %s, 'http', 'default', 60000000,"
        " 'allow', 1, 100 FROM unnest(%s::int2[], %s::uuid[], %s::text[]) AS k (p, j, n)",
        (json.dumps(definition), *arrays),
    )
    conn.execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier, task_kind,"
        " fired_at) SELECT partition_id, job_id, %s, 'queued', 'schedule', 1, 1, tier, task_kind, clock_timestamp()"
        " FROM jobs",
        (at,),
    )
    return [RunKey(i, to_micros(at)) for i in ids]


def publish(broker_url: str, keys: list[RunKey]) -> None:
    """One message a run, as any Celery client sends it."""
    app = make_app(Settings(broker_url=broker_url))
    with app.connection_for_write() as connection:
        connection.connect()
        app.declare(connection)
    with app.producer_pool.acquire(block=True) as producer:
        for key in keys:
            app.send_task(
                "tocsin.run.http",
                args=[str(key), 1],
                task_id=str(key),
                queue=QUEUES["default"],
                producer=producer,
            )


def measure(conn: psycopg.Connection[Any], count: int) -> tuple[float, float]:
    """Wait for all; runs a second between the first start and the last end, by the database's clock."""
    while conn.execute("SELECT count(*) FROM runs WHERE finished_at IS NOT NULL").fetchone() != (count,):
        time.sleep(0.2)
    (seconds,) = conn.execute(
        "SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8 FROM runs"
    ).fetchone()
    return count / seconds, seconds


def main() -> None:
    """Set up, run, print one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", default="")
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--kind", choices=["noop", "http"], default="noop")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=200)
    options = parser.parse_args()
    with ExitStack() as stack:
        database = stack.enter_context(EmbeddedPostgres())
        upgrade(database.url)
        broker = options.broker or stack.enter_context(EmbeddedBroker()).url
        server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
        stack.callback(server.wait)
        stack.callback(server.terminate)
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        conn = stack.enter_context(connect(database.url))
        keys = queue_runs(conn, options.kind, url, options.runs)
        conn.execute("ANALYZE")
        publish(broker, keys)
        env = {"TOCSIN_DATABASE_URL": database.url, "TOCSIN_BROKER_URL": broker}
        env |= {"TOCSIN_CLAIM_BATCH": str(options.batch), "TOCSIN_HTTP_ALLOW": "127.0.0.1"}
        for _ in range(options.workers):
            worker = subprocess.Popen(
                [sys.executable, "-m", "tocsin_tasks"],
                env={**os.environ, **env},
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            stack.callback(worker.wait)
            stack.callback(worker.terminate)
        rate, seconds = measure(conn, options.runs)
        scheme = broker.partition(":")[0]
        print(
            f"{options.kind} {scheme} workers={options.workers} batch={options.batch}: {rate:.0f} runs/s, {seconds:.1f} s"
        )


if __name__ == "__main__":
    if "--serve" in sys.argv:
        asyncio.run(serve())
    else:
        main()
