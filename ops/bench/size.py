"""What the schedules that are not due cost: every figure with few jobs, then with many, in one run.

    python ops/bench/size.py [--jobs 10000000] [--small 10000] [--due 100000] [--loaders 2]

The idle jobs are due at some time in the next month. With each number of them: a node fires `--due` jobs of one
instant (rate), then 1,000 jobs a second for ten seconds (lateness, by the database's clock); a node is started
with work waiting (time to the first confirm); the API answers GET /jobs/{id} and a page of a job's runs; and the
database is left alone with a node for a while (CPU at rest). The reference of every figure with many jobs is
the same figure with few.
"""

from __future__ import annotations

import argparse
import json
import random
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

from tocsin.ids import format_job_id

_CHILD = str(Path(__file__).with_name("emission_child.py"))
_LOADER = str(Path(__file__).with_name("load.py"))
_CALLS = 500
_STREAM_SECONDS = 10


def load(place: stand.Stand, count: int, loaders: int, name: str) -> float:
    """Write idle jobs with several processes; seconds it took."""
    begin = time.monotonic()
    with ExitStack() as stack:
        command = [_LOADER, str(-(-count // loaders)), name]
        made = [stand.child(stack, [*command, str(n)], place.env()) for n in range(loaders)]
        if any(process.wait() for process in made):
            raise SystemExit("a loader failed")
    return time.monotonic() - begin


def fire(
    place: stand.Stand, conn: psycopg.Connection[Any], counts: list[int], name: str, lead: float
) -> dict[str, Any]:
    """Make jobs due, `counts` of them in each second, and let a node fire them; `lead` seconds for filling."""
    total = sum(counts)
    at = stand.later(conn, lead + total / 8_000)
    for second, count in enumerate(counts):
        stand.fill(
            conn, count, at + timedelta(seconds=second), every="1000h", name=f"{name}-{second}", analyze=False
        )
    with ExitStack() as stack:
        process = stand.child(stack, [_CHILD, "node", str(total)], place.env(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if (left := (at - stand.database_now(conn)).total_seconds()) < 1:
            raise SystemExit(f"filling took too long, {left:.0f} s are left")
        seen: dict[str, Any] = json.loads(process.stdout.readline())
        seen["rss"] = usage.resident(process.pid, "VmHWM")
    seen["rate"] = total / (seen["last"] - at.timestamp())
    (seen["p99"],) = conn.execute(
        "SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM fired_at - scheduled_at)::float8)"
        " FROM runs WHERE scheduled_at >= %s",
        (at,),
    ).fetchone()  # type: ignore[misc]
    return seen


def first_firing(place: stand.Stand, conn: psycopg.Connection[Any], name: str) -> float:
    """Seconds from the start of a node process to its first confirm, with work waiting."""
    stand.fill(conn, 1000, stand.database_now(conn), every="1000h", name=name)
    with ExitStack() as stack:
        begin = time.time()
        process = stand.child(stack, [_CHILD, "node", "1000"], place.env(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        return float(json.loads(process.stdout.readline())["first"]) - begin


def rest(place: stand.Stand, seconds: float) -> float:
    """Percent of one core that PostgreSQL takes while a node has nothing to fire."""
    with ExitStack() as stack:
        stand.child(stack, ["-m", "beatshard"], place.env())
        time.sleep(5.0)
        meter = usage.Meter({"postgres": place.postgres_pid})
        meter.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(1.0)
            meter.sample()
        return meter.seconds()["postgres"] / seconds * 100


def calls(place: stand.Stand, conn: psycopg.Connection[Any]) -> tuple[float, float]:
    """p99 in milliseconds of reading a job and a page of its runs, one call after the other, random jobs."""
    import httpx

    ids = [row[0] for row in conn.execute("SELECT job_id FROM jobs TABLESAMPLE SYSTEM_ROWS(2000)").fetchall()]
    with ExitStack() as stack:
        port = free_port()
        env = place.env(TOCSIN_API_PORT=str(port))
        stand.child(stack, ["-m", "tocsin_cli", "api", "--port", str(port)], env)
        http = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}"))
        answering(http)
        figures = []
        for path in ("/jobs/{}", "/jobs/{}/runs"):
            took = []
            for job_id in random.sample(ids, min(_CALLS, len(ids))):
                begin = time.perf_counter()
                http.get(path.format(format_job_id(job_id))).raise_for_status()
                took.append((time.perf_counter() - begin) * 1000)
            figures.append(sorted(took)[int(len(took) * 0.99)])
    return figures[0], figures[1]


def answering(http: Any) -> None:
    """Wait until the API is ready."""
    import httpx

    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if http.get("/readyz").is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit("the API did not start")


def free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(
    place: stand.Stand, conn: psycopg.Connection[Any], options: argparse.Namespace, name: str
) -> dict[str, tuple[float, str]]:
    """Every figure of one size, with its unit."""
    conn.execute("VACUUM ANALYZE jobs, triggers, runs")
    burst = fire(place, conn, [options.due], f"{name}-burst", options.lead)
    stream = fire(place, conn, [options.stream] * _STREAM_SECONDS, f"{name}-stream", options.lead)
    read, page = calls(place, conn)
    return {
        "firing rate": (burst["rate"], "runs/s"),
        "firing lateness p99": (stream["p99"] * 1000, "ms"),
        "node start to first confirm": (first_firing(place, conn, f"{name}-first"), "s"),
        "node memory, peak": (max(burst["rss"], stream["rss"]), "MiB"),
        "GET /jobs/{id} p99": (read, "ms"),
        "GET /jobs/{id}/runs p99": (page, "ms"),
        "PostgreSQL at rest": (rest(place, options.rest), "% of a core"),
    }


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--due", type=int, default=100_000)
    parser.add_argument("--loaders", type=int, default=2)
    parser.add_argument("--stream", type=int, default=1000, help="jobs a second")
    parser.add_argument("--rest", type=float, default=20.0, help="seconds")
    parser.add_argument("--lead", type=float, default=20.0, help="seconds for filling, beside its own time")
    options = parser.parse_args()
    with stand.servers() as place, stand.connect(place.database) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS tsm_system_rows")
        load(place, options.small, 1, "few")
        few = measure(place, conn, options, "few")
        took = load(place, options.jobs - options.small, options.loaders, "many")
        (size,) = conn.execute(
            "SELECT pg_total_relation_size('jobs') + pg_total_relation_size('triggers')"
        ).fetchone()  # type: ignore[misc]
        (rows,) = conn.execute("SELECT count(*) FROM jobs").fetchone()  # type: ignore[misc]
        many = measure(place, conn, options, "many")
    words = f"{rows:,} jobs; reference: {options.small:,}"
    figures = [
        Figure(figure="loading", value=options.jobs / took, unit="jobs/s", conditions=f"COPY, {took:.0f} s"),
        Figure(figure="job and trigger with indexes", value=size / rows, unit="bytes", conditions=f"{rows:,} jobs"),
    ]  # fmt: skip
    figures += [
        Figure(figure=name, value=value, unit=unit, reference=few[name][0], conditions=words)
        for name, (value, unit) in many.items()
    ]
    report.write(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
