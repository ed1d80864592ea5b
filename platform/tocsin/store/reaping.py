"""Reaping: running runs whose lease has expired are sent again or failed; what is stuck is set going.

A lease is expired by the database's clock. The update is conditional on the lease token that was read, so a
heartbeat in between wins. Limited jobs are locked before their runs, as in finishing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tocsin.store import reaping_sql as sql
from tocsin.store.connections import transaction
from tocsin.store.leases_sql import LOCK_JOBS
from tocsin.store.partitions import Connection, Owned, QueuedRun, check_epochs, queued_run

PAGE = 500  # runs of one round at most


@dataclass(slots=True, kw_only=True)
class Reaped:
    """What one round found. Every run in `runs` is committed as queued and must reach the broker."""

    fired_at: datetime | None = None
    runs: list[QueuedRun] = field(default_factory=list)
    failed: int = 0
    cancelled: int = 0
    released: int = 0  # waiting runs that got a trigger
    fenced: list[int] = field(default_factory=list)


def reap(conn: Connection, owned: Owned, *, limit: int = PAGE) -> Reaped:
    """Send runs again whose lease expired, or end them when their attempts are used up."""
    done = Reaped()
    with transaction(conn):
        partitions, now = check_epochs(conn, owned)
        done.fenced = sorted(set(owned) - set(partitions))
        if now is None:
            return done
        done.fired_at = now
        args: dict[str, Any] = {"partitions": partitions, "now": now, "limit": limit}
        found = conn.execute(sql.EXPIRED, args).fetchall()
        if not found:
            return done
        limited = [row for row in found if row[4]]
        if limited:
            conn.execute(LOCK_JOBS, ([row[0] for row in limited], [row[1] for row in limited]))
        keys = [list(column) for column in zip(*found, strict=True)]
        rows = conn.execute(
            sql.REAP,
            {"partitions": keys[0], "jobs": keys[1], "nominals": keys[2], "tokens": keys[3], "now": now},
        ).fetchall()
        for row in rows:
            if row[7] == "queued":
                done.runs.append(queued_run(row))
            else:
                done.failed += row[7] == "failed"
                done.cancelled += row[7] == "cancelled"
        if limited:
            args["partitions"] = sorted({row[0] for row in limited})
            done.released = len(conn.execute(sql.RELEASE, args).fetchall())
    return done


def sweep(conn: Connection, owned: Owned, *, older_than: float, limit: int = PAGE) -> Reaped:
    """Set going what is stuck: runs unclaimed for `older_than` seconds, waiting runs without a trigger."""
    done = Reaped()
    with transaction(conn):
        partitions, now = check_epochs(conn, owned)
        done.fenced = sorted(set(owned) - set(partitions))
        if now is None:
            return done
        done.fired_at = now
        args = {"partitions": partitions, "now": now, "limit": limit, "age": timedelta(seconds=older_than)}
        done.runs = [queued_run(row) for row in conn.execute(sql.UNCLAIMED, args)]
        done.released = len(conn.execute(sql.RELEASE, args).fetchall())
    return done
