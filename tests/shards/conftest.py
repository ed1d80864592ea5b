"""Several shards, as the API and the node see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tocsin.settings import Settings
from tocsin.store.shards import engine_for
from tocsin_api.app import create_app


@pytest.fixture
def http(sharded: str, shard_urls: list[str]) -> Iterator[TestClient]:
    """The API on both shards."""
    with TestClient(create_app(Settings(database_url=sharded))) as client:
        yield client
    for url in shard_urls:
        engine_for(url).dispose()
