"""Several shards for tests: databases that know themselves apart, and one that goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from support.databases import Databases, libpq


def own_identity(url: str) -> str:
    """Give a copy of the template an identity of its own, as `tocsin db upgrade` gives a new database."""
    with psycopg.connect(libpq(url), autocommit=True) as conn:
        conn.execute("UPDATE shard_identity SET identity = gen_random_uuid()")
    return url


@contextmanager
def away(databases: Databases, url: str) -> Iterator[None]:
    """In this block nobody can connect to the database, and nobody is connected."""
    name = psycopg.conninfo.conninfo_to_dict(libpq(url))["dbname"]
    with psycopg.connect(libpq(databases.server.url_of("postgres")), autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            yield
        finally:
            conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
