"""Many HTTP runs at once on one worker process; `ops/acceptance/http_2000.py` is the long form."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.processes import Process
from support.receiver import Receiver
from tasks.table import Table, publisher

RUNS = 200
LEASE = 2.0


def peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def test_calls_that_hang_keep_their_leases(
    redis_url: str, start_worker: Callable[..., Process], table: Table, receiver: Receiver
) -> None:
    """The target answers nobody until every lease would have run out without its heartbeats."""
    keys = [table.run(table.job(f"{receiver.url}/hold")) for _ in range(RUNS)]
    worker = start_worker(redis_url, worker_slots=RUNS, run_lease=LEASE, heartbeat_interval=0.5)
    publish = publisher(redis_url)
    for key in keys:
        publish(key)
    receiver.wait_for(count=RUNS)
    begun = table.now()
    left = LEASE
    while (table.now() - begun).total_seconds() < 1.5 * LEASE:
        ((running, least),) = table.conn.execute(
            "SELECT count(*), min(extract(epoch FROM lease_expires_at - clock_timestamp())::float8) FROM runs"
            " WHERE status = 'running'"
        ).fetchall()
        assert running == RUNS
        left = min(left, least)
        table.conn.execute("SELECT pg_sleep(0.05)")
    assert 0 < left < LEASE
    receiver.release()
    assert {table.wait(receiver, key, "succeeded", "failed", "scheduled") for key in keys} == {"succeeded"}
    assert {table.read(key, "attempt") for key in keys} == {1}
    assert len(receiver.requests()) == RUNS + 1  # the release
    assert peak_mib(worker.pid) < 200


def test_the_worker_makes_room_for_its_sockets() -> None:
    """Also where a shell allows few files, as long as the hard limit allows more."""
    code = (
        "import resource; from tocsin_tasks.descriptors import reserve;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard})); reserve(1000);"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = subprocess.run(
        [sys.executable, "-c", code.format(hard=hard)], capture_output=True, text=True, check=True
    )
    assert (int(enough.stdout), enough.stderr) == (1256, "")
    scarce = subprocess.run(
        [sys.executable, "-c", code.format(hard=512)], capture_output=True, text=True, check=True
    )
    assert int(scarce.stdout) == 512
    assert "needs 1256 file descriptors and only 512" in scarce.stderr
