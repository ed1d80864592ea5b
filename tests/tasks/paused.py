"""A worker that is stopped past its lease and woken, against the worker that replaced it.

One round: the first worker has runs in hand whose target holds its answer; SIGSTOP; the target answers, so that
the success lies in the stopped worker's socket; the leases run out and the runs are queued as attempt 2, as the
reaper does; the second worker ends each of them as failed (404). SIGCONT: the first worker now has a success to
write. The row of every run must stay as the second worker left it, its output too.

The two workers consume different tiers: otherwise the broker hands the second attempt to the stopped one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.processes import Process
from support.receiver import Receiver
from tasks.table import Table
from tocsin.ids import RunKey

REAP = """
UPDATE runs SET status = 'queued', attempt = attempt + 1, fired_at = clock_timestamp(), lease_owner = NULL,
       lease_token = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE status = 'running' AND lease_expires_at < clock_timestamp()
"""
ROW = "status, reason, http_status, attempt, lease_owner, finished_at, error"
END = ("failed", "http_status", 404, 2)  # what the second worker makes of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`first` consumes the tier default and is paused, `second` the tier critical."""

    table: Table
    first: Process
    second: Process
    publish: Callable[..., None]

    def round(self, runs: int, log: Path) -> list[str]:
        """Pause, replace and wake once, with so many runs; what the woken worker changed, empty when right."""
        with Receiver(log) as receiver:
            keys = self._begin(runs, receiver)
            self.first.pause()
            try:
                receiver.release()
                self._replace(keys, receiver)
                before = self._state(keys)
            finally:
                self.first.resume()
            # A worker says how much it has in hand with each beat: nothing is left that could be written later.
            self._until("SELECT count(*) FROM workers WHERE running > 0", 0)
            after = self._state(keys)
        wrong = [f"{key}: {before[key]} became {after[key]}" for key in keys if before[key] != after[key]]
        return wrong + [f"{key}: {row}" for key, row in before.items() if row[0][:4] != END]

    def _begin(self, runs: int, receiver: Receiver) -> list[RunKey]:
        job = self.table.job(f"{receiver.url}/hold", retryPolicy={"maxAttempts": 5})
        keys = [self.table.run(job, back=number) for number in range(runs)]
        for key in keys:
            self.publish(key)
        receiver.wait_for(count=runs)
        self._until("SELECT count(*) FROM runs WHERE status = 'running'", runs)
        self._until("SELECT max(running)::int FROM workers", runs)  # so that zero, later, is news
        return keys

    def _replace(self, keys: list[RunKey], receiver: Receiver) -> None:
        target = json.dumps(f"{receiver.url}/status/404")
        self.table.conn.execute(
            "UPDATE jobs SET definition = jsonb_set(definition, '{task,http,url}', %s::jsonb)"
            " WHERE job_id = %s",
            (target, keys[0].job_id),
        )
        left, deadline = len(keys), time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"{left} leases did not run out"
            left -= self.table.conn.execute(REAP).rowcount
            self.table.conn.execute("SELECT pg_sleep(0.05)")
        for key in keys:
            self.publish(key, 2, queue="tocsin.critical")
        for key in keys:
            self.table.wait(receiver, key, "failed", "succeeded")

    def _state(self, keys: list[RunKey]) -> dict[RunKey, tuple[Any, ...]]:
        return {
            key: (self.table.read(key, ROW), self.table.outputs(key), self.table.attempts(key))
            for key in keys
        }

    def _until(self, question: str, answer: int) -> None:
        deadline = time.monotonic() + 30
        while self.table.conn.execute(question).fetchone() != (answer,):
            assert time.monotonic() < deadline, f"not {answer} after 30 s: {question}"
            self.table.conn.execute("SELECT pg_sleep(0.05)")
