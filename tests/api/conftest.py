"""The API on a fresh database, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest
from starlette.testclient import TestClient

from tocsin.settings import Settings
from tocsin.store.shards import connect, engine_for
from tocsin_api.app import create_app

TABLES = ("specs", "jobs", "triggers", "runs", "attempts", "run_outputs", "gaps", "idempotency_keys")
TASK = {"http": {"url": "http://127.0.0.1:1/"}}


@dataclass
class Api:
    """A client, and a connection to look at what was written."""

    http: TestClient
    db: psycopg.Connection[Any]
    url: str = ""

    def job(self, name: str = "nightly", **more: Any) -> dict[str, Any]:
        answer = self.http.post("/jobs", json={"name": name, "task": TASK, **more})
        assert answer.status_code == 201, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def counts(self) -> dict[str, int]:
        return {t: self.db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}  # type: ignore[index]

    def rows(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.db.execute(statement, args).fetchall()  # type: ignore[arg-type]


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url)


@pytest.fixture
def api(settings: Settings) -> Iterator[Api]:
    with TestClient(create_app(settings)) as http, connect(settings.database_url) as db:
        yield Api(http, db, settings.database_url)
    engine_for(settings.database_url).dispose()


def problem(answer: httpx.Response, status: int, code: str, pointer: str | None = None) -> dict[str, Any]:
    """Check that the answer is a whole problem document of this kind; returns it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content)
    assert body["code"] == code
    assert body["status"] == status
    assert body["instance"] == f"/requests/{answer.headers['request-id']}"
    assert body["fix"]
    assert body["detail"]
    if pointer is not None:
        assert pointer in [e["pointer"] for e in body["errors"]], body["errors"]
        assert all(e["fix"] and e["detail"] and e["code"] for e in body["errors"])
    return body
