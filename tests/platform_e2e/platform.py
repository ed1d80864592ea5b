"""The platform as processes: API, nodes and workers on a database and a broker of the test's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Any, Self

import httpx
import psycopg

from support.processes import Process
from tocsin.egress import LOOPBACK
from tocsin.store.shards import connect

_SIGNALS = """
CREATE FUNCTION say_changed() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('changed', ''); RETURN NULL; END $$;
CREATE TRIGGER say AFTER INSERT OR UPDATE ON runs FOR EACH STATEMENT EXECUTE FUNCTION say_changed();
CREATE TRIGGER say AFTER INSERT OR UPDATE OR DELETE ON triggers FOR EACH STATEMENT EXECUTE FUNCTION say_changed();
CREATE TRIGGER say AFTER INSERT OR UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION say_changed();
"""

# Short leases, so that a test need not wait for the long ones of production.
FAST = {
    "TOCSIN_RUN_LEASE": "2",
    "TOCSIN_HEARTBEAT_INTERVAL": "0.5",
    "TOCSIN_NODE_LEASE": "1.5",
    "TOCSIN_REAP_INTERVAL": "0.5",
    "TOCSIN_POLL_INTERVAL": "0.25",
    "TOCSIN_HTTP_ALLOW": LOOPBACK,
}


class Platform:
    """Starts what a test asks for, and ends it."""

    def __init__(self, database_url: str, broker_url: str, *, watched: str | None = None, **env: str) -> None:
        """`watched`: the database whose changes a wait sees, when `database_url` is not just its address."""
        self._env = {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_BROKER_URL": broker_url, **FAST, **env}
        self.database_url = database_url
        self._stack = ExitStack()
        self.client: httpx.Client
        self.database: psycopg.Connection[Any] = connect(watched or database_url)
        self._changes: psycopg.Connection[Any] = connect(watched or database_url)

    def __enter__(self) -> Self:
        self._stack.callback(self.database.close)
        self._stack.callback(self._changes.close)
        self.database.execute(_SIGNALS)
        self._changes.execute("LISTEN changed")
        api = self.process("api", "--port", "0")
        address = api.wait_for_line(r"api ready (http://\S+)", timeout=60)[1]
        self.client = self._stack.enter_context(httpx.Client(base_url=address, timeout=30))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def process(self, *arguments: str, **env: str) -> Process:
        """`tocsin <arguments>`, with these variables more."""
        command = [sys.executable, "-m", "tocsin_cli", *arguments]
        return self._stack.enter_context(Process(command, env={**self._env, **env}, name=" ".join(arguments)))

    def node(self, **env: str) -> Process:
        """A beat node that owns its partitions."""
        process = self.process("beat", **env)
        process.wait_for_line(r"beat ready", timeout=60)
        return process

    def worker(self, **env: str) -> Process:
        """A worker that consumes."""
        process = self.process("worker", **env)
        process.wait_for_line(r"worker ready", timeout=60)
        return process

    def create(self, name: str, url: str, **document: Any) -> str:
        """Create a job that calls `url`; its ID."""
        body = {"name": name, "task": {"http": {"url": url}}, **document}
        answer = self.client.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["jobId"])

    def trigger(self, job: str) -> str:
        """Run the job now; the run's ID."""
        answer = self.client.post(f"/jobs/{job}/runs")
        assert answer.status_code == 202, answer.text
        return str(answer.json()["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        answer = self.client.get(f"/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def runs(self, job: str, **query: str) -> list[dict[str, Any]]:
        """Every run of the job, oldest first."""
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            params = {**query, "limit": "500", **({"cursor": cursor} if cursor else {})}
            page = self.client.get(f"/jobs/{job}/runs", params=params).json()
            items += page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                return items[::-1]

    def wait(self, what: Callable[[], Any], *, timeout: float = 60.0) -> Any:
        """Ask again after every write to runs, triggers or jobs, until `what` is true."""
        deadline = monotonic() + timeout
        while True:
            value = what()
            if value:
                return value
            left = deadline - monotonic()
            if left <= 0:
                raise AssertionError(f"still not true after {timeout} s: {what}")
            # A second at most, in case the write came before the question was answered.
            for _ in self._changes.notifies(timeout=min(left, 1.0), stop_after=1):
                pass

    def wait_for_end(self, run_id: str) -> dict[str, Any]:
        """The run once it is final."""
        final = {"succeeded", "failed", "cancelled", "skipped"}
        return dict(self.wait(lambda: run if (run := self.run(run_id))["status"] in final else None))

    def now(self) -> Any:
        """The database's clock."""
        row = self.database.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return row[0]


def started(database_url: str, broker_url: str) -> Iterator[Platform]:
    """For fixtures."""
    with Platform(database_url, broker_url) as platform:
        yield platform
