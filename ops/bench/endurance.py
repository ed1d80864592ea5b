"""Runs at a steady rate, from the trigger to the final row: how late they start, what each costs, what grows.

    python ops/bench/endurance.py [--rate 2000] [--seconds 300] [--workers 1] [--fail 0.0]

`--rate` jobs are due every second, evenly spread over the seconds of a period; a node fires them, workers call a
target beside them, and every run ends as a row. PostgreSQL (fsync on, autovacuum on), RabbitMQ, node, workers and
target share the machine. `--fail` is the share of calls that the target refuses once with 503, so that they are
tried again a second later.

Lateness is the first start minus the nominal time, by the database's clock. CPU is of whole process trees. The
sizes are compared with what the rows alone take: `pg_column_size` of all live rows plus 28 bytes a row.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import report
import stand
import usage
from report import Figure

_PERIOD = 30  # seconds between two runs of one job
_LATENESS = """
SELECT count(*) FILTER (WHERE finished_at IS NOT NULL), count(*),
       coalesce(percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY
           extract(epoch FROM coalesce(started_at, clock_timestamp()) - scheduled_at)::float8), '{0,0}')
FROM runs WHERE scheduled_at >= %s AND scheduled_at < %s
"""
_SIZES = """
SELECT sum(pg_total_relation_size(c.oid))::float8, sum(pg_stat_get_dead_tuples(c.oid))::float8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind = 'r'
"""


def fill(conn: psycopg.Connection[Any], place: stand.Stand, url: str, rate: int, lead: float) -> Any:
    """`rate` jobs for every second of the period; the first second is returned."""
    task = {"http": {"url": url, "method": "GET"}}
    at = stand.later(conn, lead)
    for second in range(_PERIOD):
        due = at + timedelta(seconds=second)
        stand.fill(conn, rate, due, task=task, every=f"{_PERIOD}s", specs=1, name=f"s{second}")
    left = (at - stand.database_now(conn)).total_seconds()
    if left < 5:
        raise SystemExit(f"filling took too long, {left:.0f} s are left; raise --lead")
    return at


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fail", type=float, default=0.0)
    parser.add_argument("--lead", type=float, default=0.0, help="seconds for filling; 0 takes a guess")
    options = parser.parse_args()
    with stand.servers(autovacuum=True) as place, ExitStack() as stack:
        figures = _measure(place, stack, options)
    report.write(figures)
    return 0


def _measure(place: stand.Stand, stack: ExitStack, options: argparse.Namespace) -> list[Figure]:
    target = stand.child(
        stack, [str(Path(__file__).with_name("target.py")), str(options.fail)], {}, stdout=subprocess.PIPE
    )
    assert target.stdout is not None
    url = f"http://127.0.0.1:{int(target.stdout.readline())}/"
    conn = stack.enter_context(stand.connect(place.database))
    lead = options.lead or 10 + options.rate * _PERIOD / 8000
    at = fill(conn, place, url, options.rate, lead)
    roles = {"target": target.pid, "postgres": place.postgres_pid, "rabbitmq": place.rabbitmq_pid}
    roles["node"] = stand.child(stack, ["-m", "beatshard"], place.env()).pid
    for number in range(options.workers):
        roles[f"worker {number}"] = stand.child(stack, ["-m", "tocsin_tasks"], place.env()).pid
    meter = usage.Meter(roles)
    wait_until(conn, at)
    meter.start()
    (wal,) = conn.execute("SELECT pg_current_wal_lsn()").fetchone()  # type: ignore[misc]
    end, seen = at + timedelta(seconds=options.seconds), []
    while (now := stand.database_now(conn)) < end:
        time.sleep(1.0)
        meter.sample()
        seen.append({"second": (now - at).total_seconds(), "node": usage.resident(roles["node"])})
    costs = meter.seconds()
    done, due, (p50, p99) = conn.execute(_LATENESS, (at, end)).fetchone()  # type: ignore[misc]
    waited = drain(conn, at, end, due)
    return _figures(conn, options, {"costs": costs, "done": done, "due": due, "wal": wal, "waited": waited,
                                    "p50": p50, "p99": p99, "memory": {n: usage.resident(p, "VmHWM") for n, p in roles.items()}})  # fmt: skip


def wait_until(conn: psycopg.Connection[Any], at: Any) -> None:
    """Wait for an instant of the database's clock."""
    while (left := (at - stand.database_now(conn)).total_seconds()) > 0:
        time.sleep(min(1.0, left))


def drain(conn: psycopg.Connection[Any], at: Any, end: Any, due: int) -> float:
    """Seconds until everything that was due has ended, at most 60: the backlog at the end."""
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        if conn.execute(_LATENESS, (at, end)).fetchone()[0] >= due:  # type: ignore[index]
            break
        time.sleep(0.5)
    return time.monotonic() - begin


def _figures(
    conn: psycopg.Connection[Any], options: argparse.Namespace, seen: dict[str, Any]
) -> list[Figure]:
    runs = max(1, seen["done"])
    words = (
        f"{options.rate}/s for {options.seconds} s, {options.workers} workers, {options.fail:.0%} fail once"
    )
    (wal,) = conn.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s)::float8", (seen["wal"],)
    ).fetchone()  # type: ignore[misc]
    size, dead = conn.execute(_SIZES).fetchone()  # type: ignore[misc]
    live = live_bytes(conn)
    figures = [
        Figure(figure="end to end, ended in time", value=seen["done"] / options.seconds, unit="runs/s",
               reference=float(options.rate), conditions=f"{words}; {seen['due']} were due"),
        Figure(figure="end to end, start lateness p50", value=seen["p50"], unit="s", conditions=words),
        Figure(figure="end to end, start lateness p99", value=seen["p99"], unit="s", conditions=words),
        Figure(figure="end to end, backlog gone after", value=seen["waited"], unit="s", conditions=words),
        Figure(figure="WAL", value=wal / runs, unit="bytes/run", conditions=words),
        Figure(figure="tables and indexes", value=size / 2**20, unit="MiB", reference=live / 2**20,
               conditions=f"reference: live rows; {dead:.0f} dead tuples"),
    ]  # fmt: skip
    figures += [
        Figure(figure=f"CPU of {name}", value=cpu / runs * 1e6, unit="s/M runs",
               conditions=f"{cpu:.0f} s for {seen['done']} runs; peak {seen['memory'][name]:.0f} MiB")
        for name, cpu in seen["costs"].items()
    ]  # fmt: skip
    return figures


def live_bytes(conn: psycopg.Connection[Any]) -> float:
    """What the rows of all tables take, without indexes and free space."""
    names = conn.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'public' AND c.relkind = 'r'"
    ).fetchall()
    total = 0.0
    for (name,) in names:
        statement = f'SELECT coalesce(sum(pg_column_size(t.*)), 0)::float8 + 28 * count(*) FROM "{name}" t'
        total += conn.execute(statement).fetchone()[0]  # type: ignore[index,arg-type]
    return total


if __name__ == "__main__":
    sys.exit(main())
