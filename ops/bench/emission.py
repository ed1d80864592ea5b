"""Emission: due triggers → committed runs → confirmed messages on a durable quorum queue.

    python ops/bench/emission.py [--triggers 200000] [--burst 20000]

1. A node process fires `--triggers` jobs that are due at one instant; the rate is from the first confirm to the last.
2. The bare loop (the same SQL and the same publishing, nothing else) does the same: the reference.
3. A top of the hour: `--burst` jobs due in one second; how long after it the last message is confirmed.

PostgreSQL (fsync on), RabbitMQ and the node share the machine. Each part has fresh tables and an empty queue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import report
import stand

from tocsin.queues import QUEUES

_CHILD = Path(__file__).with_name("emission_child.py")
_TABLES = "jobs, triggers, runs, attempts, run_outputs, gaps"


def measure(place: stand.Stand, what: str, count: int, lead: float) -> tuple[dict[str, Any], datetime]:
    """Fill, start the child before the instant, and read what it saw."""
    with ExitStack() as stack, stand.connect(place.database) as conn:
        conn.execute(f"TRUNCATE {_TABLES}")
        at = stand.later(conn, lead + count / 15_000)
        stand.fill(conn, count, at)
        conn.execute("VACUUM ANALYZE")
        left = (at - stand.database_now(conn)).total_seconds()
        if left < 8:
            raise SystemExit(f"filling took too long, {left:.0f} s are left; raise --lead")
        process = stand.child(stack, [str(_CHILD), what, str(count)], place.env(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        seen = json.loads(process.stdout.readline())
        committed = conn.execute("SELECT count(*) FROM runs").fetchone()
        assert committed == (count,), f"{committed} runs instead of {count}"
        return seen, at


def purge(place: stand.Stand) -> int:
    """Empty the queue; how many messages there were."""
    from kombu import Connection

    with Connection(place.broker) as connection:
        return int(connection.default_channel.queue_purge(QUEUES["default"]))  # type: ignore[index]


def rate(seen: dict[str, Any], at: datetime) -> float:
    """Runs a second from the nominal time to the last confirm."""
    return float(seen["confirmed"] / (seen["last"] - at.timestamp()))


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--triggers", type=int, default=200_000)
    parser.add_argument("--burst", type=int, default=20_000)
    parser.add_argument("--lead", type=float, default=20.0, help="seconds for filling, beside its own time")
    options = parser.parse_args()
    figures = []
    with stand.servers() as place:
        rates = {}
        for what in ("bare", "node"):
            seen, at = measure(place, what, options.triggers, options.lead)
            rates[what] = rate(seen, at)
            messages = purge(place)
            assert messages >= options.triggers, f"{messages} messages for {options.triggers} runs"
            conditions = f"{options.triggers} triggers, {seen['cpu']:.1f} CPU s, {messages} messages"
            figures.append(
                report.Figure(
                    figure=f"emission, {what}",
                    value=rates[what],
                    unit="runs/s",
                    reference=rates["bare"] if what == "node" else None,
                    conditions=conditions,
                )
            )
        seen, at = measure(place, "node", options.burst, options.lead)
        figures.append(
            report.Figure(
                figure="top of the hour, last confirm",
                value=seen["last"] - at.timestamp(),
                unit="s after",
                conditions=f"{options.burst} jobs due in one second",
            )
        )
    report.write(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
