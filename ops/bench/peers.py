"""tocsin beside what else there is: entries sent a second, and runs that do nothing executed a second.

    python ops/bench/peers.py [--entries 5000] [--runs 20000] [--slow 2000]

Sending: celery beat (in memory), RedBeat (Redis), APScheduler (PostgreSQL), and a tocsin node with the same number
of due entries, each committed as a run and confirmed by the broker. Executing: Celery's solo and prefork pools
without any tracking, Procrastinate and DBOS on the same PostgreSQL (`--slow` jobs each), and a tocsin worker with
claim, finish and history. All in one run on the same servers: PostgreSQL with fsync, RabbitMQ, Redis.

Needs the extra `bench`: `make bench` installs it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import emission
import execution
import report
import stand
from report import Figure

from tocsin.embedded import EmbeddedBroker

_HERE = Path(__file__).parent


def peer(place: stand.Stand, redis: str, what: str, count: int) -> tuple[float, str]:
    """One peer in a process and a database of its own."""
    name = f"peer_{what}"
    with stand.connect(place.database) as conn:
        conn.execute(f'CREATE DATABASE "{name}"')
    database = urlsplit(place.database)._replace(scheme="postgresql", path=f"/{name}").geturl()
    command = [sys.executable, str(_HERE / "peer_child.py"), what, str(count), database, place.broker, redis]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    return seen["rate"], f"{count} · {seen['conditions']}"


def celery_pool(place: stand.Stand, pool: str, count: int, directory: Path) -> float:
    """No-op tasks a second of a Celery worker, between the first and the last."""
    from celery import Celery

    file = directory / pool
    with ExitStack() as stack:
        client = stack.enter_context(Celery(broker=place.broker))
        with client.producer_pool.acquire(block=True) as producer:
            for _ in range(count):
                client.send_task("noop", producer=producer, ignore_result=True)
        env = {**os.environ, "PEER_BROKER": place.broker, "PEER_FILE": str(file), "PYTHONPATH": str(_HERE)}
        command = ["-m", "celery", "-A", "peer_celery", "worker", "-P", pool, "-c", str(os.cpu_count())]
        options = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
        stand.child(stack, [*command, *options], env, stdout=subprocess.DEVNULL)
        begin = _size(file, 1)
        return (count - 1) / (_size(file, count) - begin)


def _size(file: Path, size: int) -> float:
    """When the file is that long."""
    while not file.exists() or file.stat().st_size < size:
        time.sleep(0.002)
    return time.perf_counter()


def tocsin_worker(place: stand.Stand, kind: str, count: int) -> float:
    """Tracked runs a second of one tocsin worker process."""
    with ExitStack() as stack, stand.connect(place.database) as conn:
        conn.execute("TRUNCATE jobs, triggers, runs, attempts, run_outputs, gaps")
        emission.purge(place)
        target = stand.child(stack, [str(_HERE / "target.py")], {}, stdout=subprocess.PIPE)
        assert target.stdout is not None
        url = f"http://127.0.0.1:{int(target.stdout.readline())}/"
        keys = execution.queue_runs(conn, kind, url, count)
        conn.execute("ANALYZE")
        execution.publish(place.broker, keys)
        options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        stand.child(stack, ["-m", "tocsin_tasks"], place.env(TOCSIN_CLAIM_BATCH="200"), **options)
        return execution.measure(conn, count)[0]


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--slow", type=int, default=2000)
    options = parser.parse_args()
    with stand.servers() as place, EmbeddedBroker() as redis:
        figures = _sending(place, redis.url, options) + _executing(place, redis.url, options)
    report.write(figures)
    return 0


def _sending(place: stand.Stand, redis: str, options: argparse.Namespace) -> list[Figure]:
    seen, at = emission.measure(place, "node", options.entries, 20.0)
    emission.purge(place)
    mine = emission.rate(seen, at)
    figures = [
        Figure(figure="tocsin node, entries sent", value=mine, unit="/s", conditions=f"{options.entries}")
    ]
    for what in ("beat", "redbeat", "apscheduler"):
        value, words = peer(place, redis, what, options.entries)
        figures.append(
            Figure(figure=f"{what}, entries sent", value=value, unit="/s", reference=mine, conditions=words)
        )
    return figures


def _executing(place: stand.Stand, redis: str, options: argparse.Namespace) -> list[Figure]:
    solo = celery_pool(place, "solo", options.runs, report.scratch())
    prefork = celery_pool(place, "prefork", options.runs, report.scratch())
    noop = tocsin_worker(place, "noop", options.runs)
    http = tocsin_worker(place, "http", options.runs // 2)
    figures = [
        Figure(figure="tocsin worker, no-op runs", value=noop, unit="/s", reference=solo,
               conditions=f"{options.runs} · tracked; reference: Celery solo"),
        Figure(figure="tocsin worker, HTTP runs", value=http, unit="/s", reference=solo,
               conditions=f"{options.runs // 2} · tracked; reference: Celery solo, no-op"),
        Figure(figure="celery solo, no-op tasks", value=solo, unit="/s", conditions=f"{options.runs} · untracked"),
        Figure(figure="celery prefork, no-op tasks", value=prefork, unit="/s", reference=solo,
               conditions=f"{options.runs} · untracked, {os.cpu_count()} processes"),
    ]  # fmt: skip
    for what in ("procrastinate", "dbos"):
        value, words = peer(place, redis, what, options.slow)
        figures.append(
            Figure(figure=f"{what}, no-op", value=value, unit="/s", reference=solo, conditions=words)
        )
    return figures


if __name__ == "__main__":
    sys.exit(main())
