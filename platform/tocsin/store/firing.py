"""Firing: look ahead for what will be due, and turn what is due into runs in one transaction a batch.

`look_ahead` reads which partitions have triggers due soon and prepares their plans. `fire` checks the epochs,
locks due triggers, compares versions, applies catch-up and overlap policies, inserts or sends runs, and moves
the triggers on. The database's clock decides what is due; the caller's clock only decides when to call.

What `fire` returns is committed: each run in it must reach the broker. When the commit's outcome is unknown
(the connection broke) nothing is returned, and the partition must be taken again: that finds the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tocsin.store import firing_sql as sql
from tocsin.store.connections import transaction, tuned
from tocsin.store.firing_limited import LimitedResult, fire_limited
from tocsin.store.partitions import Connection, Owned, QueuedRun, check_epochs, queued_run
from tocsin.store.plans import Key, PlanCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """`count` triggers of a partition that are due by `fire_at` (rounded up to 20 ms)."""

    partition: int
    fire_at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAhead:
    """What the triggers hold for the next seconds; `now` is the database's clock (None: nothing is due)."""

    now: datetime | None
    due: list[Due]
    more: frozenset[int]  # partitions with more triggers than were read


@dataclass(slots=True, kw_only=True)
class Fired:
    """What one firing transaction did. All counts are of this batch."""

    fired_at: datetime | None = None
    runs: list[QueuedRun] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)  # partitions that another node owns by now
    stale: int = 0  # triggers of an older version, dropped
    skipped: int = 0
    waiting: int = 0
    gaps: int = 0
    due: int = 0  # triggers that were due and handled, or left for the next call
    next_due: list[Due] = field(default_factory=list)  # due again within the horizon


def look_ahead(
    conn: Connection, plans: PlanCache, partitions: Sequence[int], horizon: float, limit: int = 1000
) -> LookAhead:
    """Read what is due within `horizon` seconds, at most `limit` triggers a partition, and make its plans."""
    with tuned(conn):
        rows = conn.execute(
            sql.LOOK_AHEAD,
            {"partitions": list(partitions), "horizon": timedelta(seconds=horizon), "limit": limit},
        ).fetchall()
    if not rows:
        return LookAhead(now=None, due=[], more=frozenset())
    now: datetime = rows[0][5]
    keys = {(row[2], row[3]) for row in rows if row[2] is not None}
    plans.prepare(conn, keys, now)
    plans.expect_only(keys)
    counts: dict[tuple[int, datetime], int] = {}
    totals: dict[int, int] = {}
    for partition, fire_at, _, _, count, _ in rows:
        counts[partition, fire_at] = counts.get((partition, fire_at), 0) + count
        totals[partition] = totals.get(partition, 0) + count
    return LookAhead(
        now=now,
        due=[Due(partition=p, fire_at=at, count=n) for (p, at), n in counts.items()],
        more=frozenset(p for p, n in totals.items() if n >= limit),
    )


def fire(conn: Connection, plans: PlanCache, owned: Owned, *, limit: int, horizon: float = 5.0) -> Fired:
    """Fire what is due in one transaction, at most `limit` triggers of each sort a partition.

    A (spec, nominal time) that is due without having been seen by `look_ahead` is planned, and fired in a
    second pass of the same transaction.
    """
    done = Fired()
    with transaction(conn):
        partitions, now = check_epochs(conn, owned)
        done.fenced = sorted(set(owned) - set(partitions))
        if now is None:
            return done
        done.fired_at = now
        args: dict[str, Any] = {"partitions": partitions, "now": now, "limit": limit}
        unplanned = _fire_schedules(conn, plans, plans.expected_by(now), args, done, horizon)
        if unplanned:
            _fire_schedules(conn, plans, unplanned, args, done, horizon)
        _send_runs(conn, args, done)
        _fire_limited(conn, plans, args, done, horizon)
    return done


def _fire_schedules(
    conn: Connection, plans: PlanCache, keys: Sequence[Key], args: dict[str, Any], done: Fired, horizon: float
) -> list[Key]:
    """The set-based path; returns the keys that were due and had no plan."""
    now: datetime = args["now"]
    made = plans.prepare(conn, keys, now)
    rows = conn.execute(sql.FIRE, {**args, **_plan_arrays(made)}).fetchall()
    unplanned: list[Key] = []
    touched: set[int] = set()
    for row in rows:
        what = row[7]
        if what == "run":
            done.runs.append(queued_run(row))
            touched.add(row[0])
        elif what == "stale":
            done.stale += row[3]
        elif what == "gaps":
            done.gaps += row[3]
        elif what == "due":
            done.due += row[3]
        else:
            unplanned.append((int(what.partition(":")[2]), row[2]))
    until = now + timedelta(seconds=horizon)
    again = {(key[0], plan.next) for key, plan in made.items() if plan.next and plan.next <= until}
    plans.expect(again)
    soon = {nominal for _, nominal in again}
    done.next_due.extend(Due(partition=p, fire_at=at, count=1) for at in soon for p in touched)
    return unplanned


def _plan_arrays(made: dict[Key, Any]) -> dict[str, list[Any]]:
    gaps = [plan.gap for plan in made.values()]
    return {
        "spec_ids": [spec_id for spec_id, _ in made],
        "nominals": [nominal for _, nominal in made],
        "fires": [plan.fire for plan in made.values()],
        "nexts": [plan.next for plan in made.values()],
        "gap_firsts": [gap and gap.first for gap in gaps],
        "gap_lasts": [gap and gap.last for gap in gaps],
        "gap_counts": [gap and gap.count for gap in gaps],
        "gap_caps": [gap and gap.at_least for gap in gaps],
    }


def _send_runs(conn: Connection, args: dict[str, Any], done: Fired) -> None:
    """Retries and manual runs of jobs that allow overlap."""
    for row in conn.execute(sql.SEND, args):
        if row[7] == "run":
            done.runs.append(queued_run(row))
        else:
            done.due += row[3]


def _fire_limited(
    conn: Connection, plans: PlanCache, args: dict[str, Any], done: Fired, horizon: float
) -> None:
    result: LimitedResult = fire_limited(conn, plans, args)
    until = args["now"] + timedelta(seconds=horizon)
    soon = {(partition, at) for partition, at in result.advanced if at <= until}
    done.next_due.extend(Due(partition=partition, fire_at=at, count=1) for partition, at in soon)
    done.runs.extend(result.runs)
    done.due += result.due
    done.stale += result.stale
    done.skipped += result.skipped
    done.waiting += result.waiting
    done.gaps += result.gaps
