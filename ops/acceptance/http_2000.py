"""2,000 HTTP runs at once on one worker process, against a target that answers after five seconds.

    python ops/acceptance/http_2000.py [--runs N] [--seconds S] [--lease S] [--heartbeat S] [--broker URL]

Starts a PostgreSQL with fsync on and, without --broker, the embedded broker; queues N runs of N jobs and their
messages; starts one worker with N slots, and a target that answers each call S seconds after it came. The lease
is shorter than the calls take, so that a run whose heartbeats are late loses it. Judged from the database and from
/proc: every run succeeded at its first attempt, the worker's memory stayed under 400 MiB (peak of the whole
process), and no running run's lease ever had less left than one heartbeat's interval. Exit code 1 when not.

The weakness: target, databases and worker share one machine; the leases are looked at twenty times a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ops/bench"))

from execution import publish, queue_runs  # noqa: E402

from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres  # noqa: E402
from tocsin.store.migrate import upgrade  # noqa: E402
from tocsin.store.shards import connect  # noqa: E402

MEMORY_MIB = 400
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_LEASES = """
SELECT count(*) FILTER (WHERE status = 'running'), count(*) FILTER (WHERE finished_at IS NOT NULL),
       min(extract(epoch FROM lease_expires_at - clock_timestamp())::float8) FILTER (WHERE status = 'running')
FROM runs
"""


async def serve(seconds: float) -> None:
    """The target."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(seconds)
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@dataclass
class Seen:
    """What was seen while the runs ran."""

    at_once: int = 0
    lease_left: float = float("inf")
    seconds: float = 0.0


def watch(conn: psycopg.Connection[Any], count: int, timeout: float) -> Seen:
    """Look until all have ended."""
    seen, begun = Seen(), time.monotonic()
    while time.monotonic() - begun < timeout:
        running, ended, left = conn.execute(_LEASES).fetchone()
        seen.at_once = max(seen.at_once, running)
        if left is not None:
            seen.lease_left = min(seen.lease_left, left)
        if ended == count:
            break
        time.sleep(0.05)
    seen.seconds = time.monotonic() - begun
    return seen


def peak_mib(pid: int) -> float:
    """The most memory that the process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


def judge(conn: psycopg.Connection[Any], seen: Seen, memory: float, options: argparse.Namespace) -> bool:
    """Print the figures; whether all is as it must be."""
    rows = conn.execute(
        "SELECT status, attempt, count(*), max(extract(epoch FROM finished_at - attempt_started_at)::float8)"
        " FROM runs GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    for status, attempt, number, longest in rows:
        print(f"{number} runs {status} at attempt {attempt}, the longest after {longest or 0:.2f} s")
    print(f"{seen.at_once} running at once; all over after {seen.seconds:.1f} s")
    print(f"worker: peak memory {memory:.0f} MiB (limit {MEMORY_MIB})")
    print(
        f"leases of {options.lease:g} s renewed every {options.heartbeat:g} s:"
        f" the least that one had left was {seen.lease_left:.2f} s"
    )
    return (
        [row[:3] for row in rows] == [("succeeded", 1, options.runs)]
        and seen.at_once >= 0.95 * options.runs
        and memory < MEMORY_MIB
        and seen.lease_left >= options.heartbeat
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--lease", type=float, default=4.0)
    parser.add_argument("--heartbeat", type=float, default=1.0)
    parser.add_argument("--broker", default="")
    return parser.parse_args()


def main() -> int:
    """Set up, watch, judge."""
    options = parse()
    with ExitStack() as stack:
        database = stack.enter_context(EmbeddedPostgres())
        upgrade(database.url)
        broker = options.broker or stack.enter_context(EmbeddedBroker()).url
        command = [sys.executable, __file__, "--serve", str(options.seconds)]
        target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(target.wait)
        stack.callback(target.terminate)
        assert target.stdout is not None
        conn = stack.enter_context(connect(database.url))
        url = f"http://127.0.0.1:{int(target.stdout.readline())}/"
        publish(broker, queue_runs(conn, "http", url, options.runs))
        conn.execute("ANALYZE")
        env = {
            "TOCSIN_DATABASE_URL": database.url,
            "TOCSIN_BROKER_URL": broker,
            "TOCSIN_HTTP_ALLOW": "127.0.0.1",
            "TOCSIN_WORKER_SLOTS": str(options.runs),
            "TOCSIN_RUN_LEASE": str(options.lease),
            "TOCSIN_HEARTBEAT_INTERVAL": str(options.heartbeat),
        }
        worker = subprocess.Popen(
            [sys.executable, "-m", "tocsin_tasks"],
            env={**os.environ, **env},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        stack.callback(worker.wait)
        stack.callback(worker.terminate)
        seen = watch(conn, options.runs, timeout=60 + 3 * options.seconds)
        good = judge(conn, seen, peak_mib(worker.pid), options)
    print("passed" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    if "--serve" in sys.argv:
        asyncio.run(serve(float(sys.argv[-1])))
    else:
        sys.exit(main())
