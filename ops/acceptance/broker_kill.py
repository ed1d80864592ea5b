"""A RabbitMQ node killed in a burst: every due run is executed, says a witness that trusts nothing of tocsin's.

Starts three RabbitMQ nodes as one cluster, a PostgreSQL with fsync, beat nodes and workers as processes, and a
receiver that keeps its own log. `--runs` jobs are due at one instant; when the receiver has seen the first
`--after` of them, the RabbitMQ node that the first beat node publishes to dies by SIGKILL. Judged from the receiver's log: the
run IDs that it saw, how often each, when the last one came; and from Postgres: how the runs ended.

    python ops/acceptance/broker_kill.py --runs 20000

The exit code is 0 when every run was executed and none twice. The weakness: all of it shares one machine.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.burst import make_burst  # noqa: E402
from support.processes import Process  # noqa: E402
from support.rabbitmq import RabbitCluster  # noqa: E402
from support.receiver import Receiver  # noqa: E402
from tocsin.embedded import EmbeddedPostgres  # noqa: E402
from tocsin.store.migrate import upgrade  # noqa: E402
from tocsin.store.shards import connect  # noqa: E402


def main() -> int:
    """Run the scene once; 0 when nothing was missed or doubled."""
    options = arguments()
    # What was started ends with this, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-broker-kill-")))
        server = EmbeddedPostgres().start()
        stack.callback(server.stop)
        url = server.url_of("postgres")
        upgrade(url)
        receiver = stack.enter_context(Receiver(place / "witness.jsonl"))
        cluster = stack.enter_context(RabbitCluster(place / "rabbitmq"))
        env = {"TOCSIN_DATABASE_URL": url, "TOCSIN_BROKER_URL": cluster.urls_of("/")}
        env |= {"TOCSIN_HTTP_ALLOW": "127.0.0.1"}
        beats = [start(stack, "beat", n, env) for n in range(options.nodes)]
        for n in range(options.workers):
            start(stack, "worker", n, env)
        conn = stack.enter_context(connect(url))
        due = burst(conn, url, f"{receiver.url}/ok", options)
        kill(cluster, beats[0], receiver, options.after)
        wait(conn, receiver, options)
        return report(conn, receiver, due, options.runs)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000, help="jobs that are due at one instant")
    parser.add_argument("--nodes", type=int, default=1, help="beat nodes")
    parser.add_argument("--workers", type=int, default=2, help="workers")
    parser.add_argument("--after", type=int, default=1, help="executed runs, then the kill")
    parser.add_argument("--timeout", type=float, default=300, help="seconds from the kill to the last run")
    return parser.parse_args()


def start(stack: ExitStack, what: str, number: int, env: dict[str, str]) -> Process:
    """A beat node or a worker, ready."""
    command = [sys.executable, "-m", "tocsin_cli", what]
    process = stack.enter_context(Process(command, env=env, name=f"{what}-{number}"))
    process.wait_for_line(f"{what} ready", timeout=90)
    return process


def burst(conn: psycopg.Connection[Any], url: str, target: str, options: argparse.Namespace) -> datetime:
    """Make the jobs, with their time far enough away to be done before it; the time."""
    began = time.monotonic()
    due = now(conn).replace(microsecond=0) + timedelta(seconds=10 + options.runs / 100)
    make_burst(url, target, options.runs, due)
    left = (due - now(conn)).total_seconds()
    say(f"{options.runs} jobs made in {time.monotonic() - began:.1f} s, due in {left:.1f} s")
    if left < 0:
        raise SystemExit("the jobs were not made before they were due: the machine is too slow for so many")
    return due


def kill(cluster: RabbitCluster, beat: Process, receiver: Receiver, after: int) -> None:
    """SIGKILL for the node that the beat node publishes to, once so many runs have been seen."""
    node = cluster.node_at(beat.wait_for_line("publisher_connected .*")[0])
    seen = len(receiver.wait_for(count=after, timeout=600))
    node.process.kill()
    say(f"RabbitMQ node {node.name} killed when {seen} runs had been executed")
    say(beat.wait_for_line("publisher_reconnects .*", timeout=60)[0])
    say(beat.wait_for_line("publisher_connected .*", skip=1, timeout=60)[0])


def wait(conn: psycopg.Connection[Any], receiver: Receiver, options: argparse.Namespace) -> None:
    """Until Postgres says that every run has ended, and the receiver nothing new for a while."""
    end = time.monotonic() + options.timeout
    while time.monotonic() < end:
        (ended,) = conn.execute(
            "SELECT count(*) FROM runs WHERE status IN ('succeeded', 'failed')"
        ).fetchone() or (0,)
        if ended >= options.runs:
            break
        time.sleep(0.5)
    time.sleep(2)  # an execution too many would come now


def report(conn: psycopg.Connection[Any], receiver: Receiver, due: datetime, runs: int) -> int:
    """Print what the witness saw; 0 when that is each run once."""
    requests = receiver.requests()
    seen = Counter(request.key for request in requests)
    wanted = {
        f"run_{job.hex}{int(at.timestamp() * 1e6):014x}"
        for job, at in conn.execute("SELECT job_id, scheduled_at FROM runs").fetchall()
    }
    late = sorted(request.seconds - due.timestamp() for request in requests)
    statuses = dict(conn.execute("SELECT status, count(*) FROM runs GROUP BY 1").fetchall())
    missed, twice = runs - len(seen), sum(count - 1 for count in seen.values())
    say(f"executed {len(seen)} of {runs}, missed {missed}, executed again {twice}")
    say(f"run IDs that Postgres does not know {len(set(seen) - wanted)}, status {statuses}")
    if late:
        say(
            f"lateness p50 {late[len(late) // 2]:.2f} s, p99 {late[len(late) * 99 // 100]:.2f} s, last {late[-1]:.2f} s"
        )
    return int(bool(missed or twice or set(seen) - wanted or statuses != {"succeeded": runs}))


def now(conn: psycopg.Connection[Any]) -> datetime:
    """The database's clock."""
    row = conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def say(text: str) -> None:
    """A line for people."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
