"""A database with the builder on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store.builder import Bench
from tocsin.store.shards import connect


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    conn = connect(database_url)
    try:
        yield Bench(conn)
    finally:
        conn.close()
