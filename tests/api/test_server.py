"""The API as a process, and without its database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import httpx
import pytest
from starlette.testclient import TestClient

from api.conftest import TASK, problem
from tocsin.settings import Settings
from tocsin.store.shards import engine_for
from tocsin_api.app import create_app

SERVE = """
import sys
from tocsin import settings
from tocsin_api.app import run
sys.exit(run(settings.load(), "127.0.0.1", int(sys.argv[1])))
"""


@pytest.fixture
def server(database_url: str) -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "TOCSIN_DATABASE_URL": database_url, "TOCSIN_BODY_LIMIT": "20000"}
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(port)], env=env)
    retrying = httpx.HTTPTransport()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=retrying, timeout=20) as client:
        while True:
            assert process.poll() is None
            try:
                client.get("/healthz")
                break
            except httpx.ConnectError:
                continue
        yield client
    process.terminate()
    assert process.wait(20) == 0


def test_a_real_server_serves_jobs_and_runs(server: httpx.Client) -> None:
    assert server.get("/readyz").json() == {"status": "ok", "problems": []}
    answer = server.post("/v1/jobs", json={"name": "nightly", "task": TASK, "schedule": "@daily"})
    assert answer.status_code == 201
    assert answer.headers["date"]
    run = server.post("/jobs/name:nightly/runs")
    assert run.status_code == 202
    cancelled = server.post(f"/runs/{run.json()['runId']}/cancel").json()
    assert server.get(f"/runs/{cancelled['runId']}?waitSec=20").json()["status"] == "cancelled"
    assert server.get(f"/runs/{run.json()['runId']}?waitSec=0.2").status_code == 200


def test_a_real_server_refuses_a_long_stream(server: httpx.Client) -> None:
    chunks = (b" " * 1000 for _ in range(100))
    answer = server.post("/jobs", content=chunks, headers={"content-type": "application/json"})
    problem(answer, 413, "payload_too_large")
    assert server.get("/healthz").status_code == 200


def test_a_wait_ends_without_the_run(server: httpx.Client) -> None:
    server.post("/jobs", json={"name": "nightly", "task": TASK})
    run = server.post("/jobs/name:nightly/runs").json()
    answer = server.get(f"/runs/{run['runId']}?waitSec=0.3")
    assert answer.json()["status"] == "scheduled"
    problem(server.get(f"/runs/{run['runId']}?waitSec=31"), 422, "validation", "?waitSec")


def test_without_a_database_the_process_says_so(new_database: Callable[..., str]) -> None:
    empty = new_database(migrated=False)
    away = "postgresql://127.0.0.1:1/nowhere"
    with TestClient(create_app(Settings(database_url=f"0-511={empty},512-1023={away}"))) as http:
        assert http.get("/healthz").status_code == 200
        ready = http.get("/readyz")
        assert ready.status_code == 503
        told = ready.json()["problems"]
        assert len(told) == 2
        assert "tocsin db upgrade" in told[0]
        assert "cannot be reached" in told[1]
        for n in range(4):  # names in both shards
            answer = http.post("/jobs", json={"name": f"job-{n}", "task": TASK})
            problem(answer, 503, "shard_unavailable")
            assert answer.headers["retry-after"] == "2"
        problem(http.get("/jobs"), 503, "shard_unavailable")
        assert http.post("/schedules/preview", json={"schedule": "@daily"}).status_code == 200
    for url in (empty, away):
        engine_for(url).dispose()
