"""A real Flower beside a real worker: what its pages show of runs, and that it lets nobody in without a password."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.processes import Process
from support.receiver import Receiver
from tasks.table import Table, publisher
from tocsin import clock
from tocsin.embedded.supervised import free_port

USER = ("tocsin", "a password of tests")


@pytest.fixture
def flower(rabbitmq_vhost: str, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a Flower that listens to the broker's events."""
    port = free_port()
    env = {
        "TOCSIN_BROKER_URL": rabbitmq_vhost,
        "FLOWER_BASIC_AUTH": ":".join(USER),
        "FLOWER_READ_ONLY": "True",
    }
    command = [sys.executable, "-m", "celery", "-A", "tocsin_tasks", "flower", "--address=127.0.0.1"]
    with Process([*command, f"--port={port}"], env=env, cwd=tmp_path, name="flower") as process:
        process.wait_for_line("Connected to amqp", timeout=60)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", auth=USER, timeout=20) as client:
            yield client


def _found(flower: httpx.Client, search: str) -> list[dict[str, Any]]:
    query = {"draw": 1, "start": 0, "length": 50, "search[value]": search, "order[0][column]": 0}
    query |= {"order[0][dir]": "asc", "columns[0][data]": "name"}
    answer = flower.get("/tasks/datatable", params=query)
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["data"]
    return rows


def _states(flower: httpx.Client, search: str, wanted: set[str]) -> list[dict[str, Any]]:
    """The rows that a search finds, once their states are as wanted; each question takes Flower some milliseconds."""
    end = clock.monotonic() + 30
    while True:
        rows = _found(flower, search)
        if {row["state"] for row in rows} == wanted:
            return rows
        assert clock.monotonic() < end, f"Flower shows {rows}"


def test_flower_shows_a_run_by_kind_and_finds_it_by_job_and_by_run(
    flower: httpx.Client,
    rabbitmq_vhost: str,
    table: Table,
    receiver: Receiver,
    start_worker: Callable[..., Process],
) -> None:
    good = table.run(table.job(f"{receiver.url}/ok"))
    other = table.run(table.job(f"{receiver.url}/status/404", retryPolicy={"maxAttempts": 1}))
    start_worker(rabbitmq_vhost)
    publish = publisher(rabbitmq_vhost)
    publish(good)
    publish(other)
    (row,) = _states(flower, "job-1", {"SUCCESS"})
    assert (row["uuid"], row["name"]) == (str(good), "tocsin.run.http")
    assert "job-1" in row["kwargs"]
    (row,) = _states(flower, str(other), {"FAILURE"})
    assert "job-2" in row["kwargs"]
    page = flower.get(f"/task/{good}")
    assert page.status_code == 200
    assert str(good) in page.text
    assert "job-1" in page.text


def test_flower_lets_nobody_in_without_the_password(flower: httpx.Client) -> None:
    with httpx.Client(base_url=flower.base_url) as stranger:
        assert stranger.get("/tasks").status_code == 401
        assert stranger.post("/api/worker/shutdown/tocsin@x").status_code == 401
    refused = flower.post("/api/worker/shutdown/tocsin@x")
    assert refused.status_code in (403, 405), "read-only"
