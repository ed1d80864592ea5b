"""The benchmarks work: in their small form, on real servers, with every figure that they promise.

`size` is left out: even its small form waits for minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "ops/bench"
FIGURES = {
    "emission": ["emission, node", "emission, bare", "top of the hour, last confirm"],
    "peers": [
        "tocsin worker, no-op runs",
        "celery solo, no-op tasks",
        "redbeat, entries sent",
        "dbos, no-op",
    ],
    "endurance": ["end to end, start lateness p99", "CPU of node", "WAL", "tables and indexes"],
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", FIGURES)
def test_the_small_form(name: str, tmp_path: Path) -> None:
    env = {**os.environ, "TOCSIN_BENCH_OUT": str(tmp_path)}
    command = [sys.executable, str(BENCH / "all.py"), "--small", "--only", name]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=230, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    figures = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    by_name = {figure["figure"]: figure for figure in figures}
    assert by_name.keys() >= set(FIGURES[name])
    assert all(figure["value"] > 0 for figure in figures if figure["figure"] in FIGURES[name]), figures
    assert "Python" in figures[0]["machine"]
