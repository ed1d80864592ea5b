"""A worker paused past its lease and woken cannot overwrite the attempt that replaced it.

The long form, 200 times, is ops/acceptance/paused_worker.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.processes import Process
from tasks.paused import Scene
from tasks.table import Table, publisher

LEASES = {"run_lease": 2, "heartbeat_interval": 0.5}


def test_a_woken_worker_changes_nothing_of_its_successor(
    redis_url: str, table: Table, start_worker: Callable[..., Process], tmp_path: Path
) -> None:
    first = start_worker(redis_url, "--tier", "default", **LEASES)
    second = start_worker(redis_url, "--tier", "critical", **LEASES)
    scene = Scene(table=table, first=first, second=second, publish=publisher(redis_url))
    assert scene.round(5, tmp_path / "receiver.jsonl") == []
    assert first.running
    # It did try: each of its successes was refused.
    first.wait_for_line("discarded|lease was lost", timeout=10)
