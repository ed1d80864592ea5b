"""The statements of a move, kept together. Each is about partitions `first` to `last`, both included.

Index: shard_moves_pkey, or the primary key of the table, which leads with partition_id.

A writer that the fence lets pass holds its row of `shard_moves` FOR SHARE until it commits. Whatever extends or
uses the lease therefore locks the rows first and compares the clock in a statement of its own: a writer that came
after the lease ended has committed by then, and the comparison sees that it ended.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table

from tocsin.model.status import FINAL
from tocsin.store import schema as s

# One move at a time in a database; held by the session that copies.
TRY_LOCK = "SELECT pg_try_advisory_lock(hashtext('tocsin shard move'))"
BYPASS = "SET LOCAL tocsin.mover = 'on'"

# The nodes' transactions lock these rows FOR SHARE: this waits for them, and the next ones find a stale epoch.
RAISE_EPOCHS = """
WITH mine AS (
    SELECT partition_id FROM partitions WHERE partition_id BETWEEN %(first)s AND %(last)s
    ORDER BY partition_id FOR UPDATE
)
UPDATE partitions p SET epoch = p.epoch + 1, owner = NULL FROM mine WHERE p.partition_id = mine.partition_id
RETURNING p.partition_id
"""

# A lease that has ended is anybody's.
TAKE_LEASE = """
INSERT INTO shard_moves AS m (partition_id, leaving_to, mover, lease_until)
SELECT p, %(target)s, %(mover)s, clock_timestamp() + %(lease)s FROM generate_series(%(first)s::int, %(last)s::int) AS p
ORDER BY p
ON CONFLICT (partition_id) DO UPDATE
SET leaving_to = excluded.leaving_to, mover = excluded.mover, lease_until = excluded.lease_until
WHERE m.moved_to IS NULL AND (m.lease_until IS NULL OR m.lease_until <= clock_timestamp())
RETURNING partition_id
"""

LOCK_LEASE = """
SELECT partition_id FROM shard_moves WHERE partition_id BETWEEN %(first)s AND %(last)s AND mover = %(mover)s
ORDER BY partition_id FOR UPDATE
"""

RENEW_LEASE = """
UPDATE shard_moves SET lease_until = clock_timestamp() + %(lease)s
WHERE partition_id BETWEEN %(first)s AND %(last)s AND mover = %(mover)s AND lease_until > clock_timestamp()
RETURNING partition_id
"""

# The one decisive statement: before its commit the old shard has the partitions, after it the new one.
SWITCH = """
UPDATE shard_moves
SET moved_to = leaving_to, generation = generation + 1, leaving_to = NULL, mover = NULL, lease_until = NULL
WHERE partition_id BETWEEN %(first)s AND %(last)s AND mover = %(mover)s AND lease_until > clock_timestamp()
RETURNING partition_id
"""

GIVE_UP_LEASE = """
UPDATE shard_moves SET leaving_to = NULL, mover = NULL, lease_until = NULL
WHERE partition_id BETWEEN %(first)s AND %(last)s AND mover = %(mover)s
"""

# In the target, before anything is copied: they are elsewhere, as far as it knows.
EXPECT = """
INSERT INTO shard_moves AS m (partition_id, generation, moved_to)
SELECT p, g, %(source)s FROM unnest(%(partitions)s::int2[], %(generations)s::int8[]) AS k (p, g)
ON CONFLICT (partition_id) DO UPDATE
SET generation = excluded.generation, moved_to = excluded.moved_to, leaving_to = NULL, mover = NULL, lease_until = NULL
WHERE m.generation < excluded.generation OR m.moved_to IS NOT NULL
RETURNING partition_id
"""

# In the target, when all is copied. Its clock may be another: nothing may lie beyond it that a takeover compares with
# what the target's clock gives next. Leases get time for the workers to learn where their runs are.
SETTLE_PARTITIONS = """
UPDATE partitions SET owner = NULL, watermark = CASE
    WHEN watermark >= clock_timestamp() THEN clock_timestamp() - interval '1 second' ELSE watermark END
WHERE partition_id BETWEEN %(first)s AND %(last)s
"""
SETTLE_QUEUED = """
UPDATE runs SET fired_at = clock_timestamp()
WHERE partition_id BETWEEN %(first)s AND %(last)s AND status = 'queued' AND fired_at > clock_timestamp()
"""
SETTLE_RUNNING = """
UPDATE runs SET lease_expires_at = clock_timestamp() + %(grace)s
WHERE partition_id BETWEEN %(first)s AND %(last)s AND status = 'running'
  AND lease_expires_at < clock_timestamp() + %(grace)s
"""

SPECS = """
SELECT spec_id, spec FROM specs WHERE spec_id IN (
    SELECT spec_id FROM jobs WHERE partition_id BETWEEN %(first)s AND %(last)s
    UNION SELECT spec_id FROM triggers WHERE partition_id BETWEEN %(first)s AND %(last)s
)
"""
PUT_SPEC = "INSERT INTO specs (spec_id, spec) VALUES (%s, %s) ON CONFLICT DO NOTHING"
SAME_SPEC = "SELECT spec = %s FROM specs WHERE spec_id = %s"

LIVE_FENCES = """
SELECT DISTINCT t.tgrelid::regclass::text, t.tgname FROM pg_trigger t
WHERE t.tgparentid = 0 AND NOT t.tgisinternal AND t.tgname LIKE 'fence%%'
"""
# Of a fence's partitions, whether one is still refused, or may be.
REFUSED = """
SELECT EXISTS (SELECT FROM shard_moves WHERE partition_id BETWEEN %(first)s AND %(last)s
               AND (moved_to IS NOT NULL OR mover IS NOT NULL))
"""

# Small tables, copied under the fence, and the history, whose past is copied before it.
WHOLE: tuple[Table, ...] = (s.jobs, s.triggers, s.gaps, s.idempotency_keys, s.partitions)
HISTORY: tuple[Table, ...] = (s.runs, s.attempts, s.run_outputs)
FENCED = (*WHOLE, *HISTORY)

_FINAL = ", ".join(f"'{status}'" for status in sorted(FINAL))
# From which rows, and which of them can change no more: what ended well before the copy began. `cut` is an instant of
# the source's clock. An output is as old as its run, which has its key.
_PAST: dict[str, tuple[str, str]] = {
    "runs": ("runs x", f"x.status IN ({_FINAL}) AND x.finished_at < {{cut}}"),
    "attempts": ("attempts x", "x.finished_at < {cut}"),
    "run_outputs": (
        "runs r JOIN run_outputs x ON x.partition_id = r.partition_id AND x.job_id = r.job_id"
        " AND x.scheduled_at = r.scheduled_at",
        f"r.status IN ({_FINAL}) AND r.finished_at < {{cut}}",
    ),
}


def copy_out(table: Table, first: int, last: int, *, cut: str | None = None, past: bool = False) -> str:
    """COPY of a table's rows of the range; of history its `past`, or all the rest. `cut` is an SQL literal."""
    source, condition = f"{table.name} x", f"x.partition_id BETWEEN {first} AND {last}"
    if cut is not None:
        source, ended = _PAST[table.name]
        condition += f" AND {'' if past else 'NOT '}coalesce({ended.format(cut=cut)}, false)"
    return f"COPY (SELECT {_columns(table, 'x.')} FROM {source} WHERE {condition}) TO STDOUT"


def copy_in(table: Table) -> str:
    """The other end of `copy_out`."""
    return f"COPY {table.name} ({_columns(table)}) FROM STDIN"


def _columns(table: Table, prefix: str = "") -> str:
    return ", ".join(f'{prefix}"{column.name}"' for column in table.columns)


def delete_batch(physical: str) -> str:
    """Delete some rows of the range from a table, or from one day of it."""
    return (
        f"DELETE FROM {physical} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {physical}"
        " WHERE partition_id BETWEEN %(first)s AND %(last)s LIMIT %(limit)s))"
    )


def fence_name(first: int, last: int) -> str:
    """The name of the triggers of a range; the writing one's, `_delete` goes after the other's."""
    return f"fence_{first}_{last}"


def create_fence(table: str, first: int, last: int) -> tuple[str, str]:
    """Rows of the range are looked up in `shard_moves` before they are written; others cost a comparison."""
    name = fence_name(first, last)
    call = "EXECUTE FUNCTION refuse_moved()"
    return (
        f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW"
        f" WHEN (NEW.partition_id BETWEEN {first} AND {last}) {call}",
        f"CREATE TRIGGER {name}_delete BEFORE DELETE ON {table} FOR EACH ROW"
        f" WHEN (OLD.partition_id BETWEEN {first} AND {last}) {call}",
    )


Parameters = dict[str, Any]
