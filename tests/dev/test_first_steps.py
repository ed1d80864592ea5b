"""The page docs/first-steps.md is executed, command by command, against a real dev server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from .dev_process import Dev

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-steps.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page(dev: Dev, tmp_path: Path) -> None:
    target = re.search(r"^  Target +(\S+)", dev.process.text("stdout"), re.MULTILINE)
    assert target
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 6
    script = "".join(blocks).replace("http://127.0.0.1:17420", target[1])
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "tocsin").write_text(f'#!/bin/sh\nexec {sys.executable} -m tocsin_cli "$@"\n')
    (binaries / "tocsin").chmod(0o755)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "TOCSIN_API_URL": dev.url}
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for expected in (
        "first moment after the gap 02:00-03:00",
        "differences: exit code 1",
        "the run failed: exit code 1",
        "paused (vendor is down)",
    ):
        assert expected in done.stdout
    assert "0 to create, 0 to update, 1 unchanged" in done.stderr
    assert "attempt 2 failed: http 503" in done.stderr
