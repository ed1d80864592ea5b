"""How long a move of partitions takes, and for how long the range cannot be written.

    python ops/bench/shard_move.py [--partitions N] [--jobs N] [--runs N] [--recent N]

Two PostgreSQL servers with fsync on. `--jobs` jobs with a schedule in `--partitions` partitions; each has `--runs`
runs that ended long ago, and `--recent` of the last minutes, all with an output of 1 kB. Nothing else runs, so this is
the copy's own time; a node takes the partitions within its poll interval after it.
"""

from __future__ import annotations

import argparse
import sys
import time

from tocsin.embedded import EmbeddedPostgres
from tocsin.settings import Settings
from tocsin.store.migrate import upgrade
from tocsin.store.moving import Plan, move
from tocsin.store.shards import connect

_JOBS = """
INSERT INTO jobs (partition_id, job_id, namespace, name, owner, definition, spec_id, task_kind, tier, timeout_us,
                  overlap, max_running, queue_limit)
SELECT n %% %(partitions)s, gen_random_uuid(), 'default', 'job-' || n, 'bench',
       jsonb_build_object('name', 'job-' || n, 'task', repeat('x', 400)), 1, 'http', 'default', 60000000, 'allow', 1, 100
FROM generate_series(1, %(jobs)s) n
"""
_TRIGGERS = """
INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, spec_id)
SELECT partition_id, now() + interval '1 h', job_id, now() + interval '1 h', 'schedule', 1, 1 FROM jobs
"""
_RUNS = """
INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier, task_kind, fired_at,
                  started_at, finished_at)
SELECT partition_id, job_id, at, 'succeeded', 'schedule', 1, 1, 'default', 'http', at, at, at
FROM jobs, generate_series(1, %(count)s) n, LATERAL (SELECT now() - %(back)s * interval '1 s' - n * interval '1 s' AS at)
"""
_OUTPUTS = """
INSERT INTO run_outputs (partition_id, job_id, scheduled_at, attempt, size, truncated, content)
SELECT partition_id, job_id, scheduled_at, 1, 1024, false, convert_to(repeat(md5(job_id::text), 32), 'UTF8') FROM runs
"""


def main() -> int:
    """Fill, move, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--recent", type=int, default=1)
    options = parser.parse_args()
    with EmbeddedPostgres() as old, EmbeddedPostgres() as new:
        upgrade(old.url, days_back=2)
        upgrade(new.url, partitions=())
        with connect(old.url) as conn:
            conn.execute("INSERT INTO specs VALUES (1, '{}')")
            conn.execute(_JOBS, {"partitions": options.partitions, "jobs": options.jobs})
            conn.execute(_TRIGGERS)
            conn.execute(_RUNS, {"count": options.runs, "back": 3600})
            conn.execute(_RUNS, {"count": options.recent, "back": 60})
            conn.execute(_OUTPUTS)
        shards = Settings(database_url=f"0-1023={old.url},spare={new.url}").shards
        source, target = shards.shards
        plan = Plan(source=source, target=target, first=0, last=options.partitions - 1, settle=0)
        begun = time.monotonic()
        done = move(shards, plan, say=print)
        print(f"{sum(done.rows.values())} rows in {time.monotonic() - begun:.1f} s: {done.rows}")
        print(f"pause {done.pause:.2f} s, {done.deleted} old rows deleted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
