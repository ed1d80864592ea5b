"""How the hot statements are executed: their work grows with the rows that are due, not with their square."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from store.builder import Bench
from tocsin.store import firing, firing_sql

DUE = 300


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def test_firing_joins_each_row_once(bench: Bench) -> None:
    """Without statistics and after ANALYZE: no join compares rows that do not belong together."""
    at = bench.now() - timedelta(seconds=1)
    with bench.conn.transaction():
        for _ in range(DUE):
            bench.job(at, schedule={"every": "1h", "anchor": at.isoformat()})
    bench.conn.execute("SET enable_seqscan = off")
    firing.look_ahead(bench.conn, bench.plans, list(bench.owned), 5.0)
    made = bench.plans.prepare(bench.conn, bench.plans.expected_by(bench.now()), bench.now())
    args = {"partitions": list(bench.owned), "now": bench.now(), "limit": 1000, **firing._plan_arrays(made)}
    for analyze in ("", "ANALYZE jobs, triggers, runs"):
        if analyze:
            bench.conn.execute(analyze)
        with bench.conn.transaction(force_rollback=True):
            row = bench.conn.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + firing_sql.FIRE, args).fetchone()
        plan = row[0][0]["Plan"]
        inserted = [
            n for n in nodes(plan) if n.get("Relation Name", "").startswith("runs") and "Tuples Inserted" in n
        ]
        assert [n["Tuples Inserted"] for n in inserted] == [DUE], analyze
        removed = sum(n.get("Rows Removed by Join Filter", 0) * n["Actual Loops"] for n in nodes(plan))
        assert removed == 0, analyze
