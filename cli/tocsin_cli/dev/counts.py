"""What happened while the dev server ran, in one line."""

from __future__ import annotations

import psycopg

from tocsin.embedded import EmbeddedPostgres
from tocsin_cli.dev.samples import CANARY

# Small tables on a developer's machine: a scan of the runs is nothing.
_COUNT = """
SELECT r.status, count(*) FROM runs r JOIN jobs j USING (partition_id, job_id)
WHERE j.name <> %s AND r.created_at >= pg_postmaster_start_time()
GROUP BY r.status ORDER BY r.status
"""


def since_start(postgres: EmbeddedPostgres) -> str:
    """`stopped: 12 succeeded, 1 failed`."""
    try:
        with psycopg.connect(postgres.libpq_url, connect_timeout=2) as connection:
            rows = connection.execute(_COUNT, [CANARY]).fetchall()
    except psycopg.Error:  # the database has gone first: there is nothing to count
        return "stopped"
    return "stopped; runs: " + (", ".join(f"{count} {status}" for status, count in rows) or "none")
