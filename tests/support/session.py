"""The life of a test session: mark what it starts, and check at its end that nothing is left.

Protocol: `begin()` puts a marker into the environment, which every process that a test starts inherits, and
starts the reaper for the case that pytest is killed. `end()` returns what was left and ends it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from support import reaper

_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A process that outlived the session."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.pid} {self.command}"


class Session:
    """One pytest process and everything it starts."""

    def __init__(self) -> None:
        self._marker = ""
        self._reaper: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Mark the environment and start the reaper."""
        self._marker = uuid.uuid4().hex
        clean = {name: value for name, value in os.environ.items() if name != reaper.MARKER}
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, self._marker, str(os.getpid())],
            stdin=subprocess.PIPE,
            env=clean,
            start_new_session=True,
        )
        os.environ[reaper.MARKER] = self._marker

    def end(self) -> list[Leftover]:
        """Stop the reaper; return the processes that are left and end them."""
        if self._reaper is None:
            return []
        left = [_describe(pid) for pid in reaper.wait_for_end(reaper.marked(self._marker), _END_SECONDS)]
        reaper.kill([leftover.pid for leftover in left])
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        self._reaper.wait(2 * _END_SECONDS)
        self._reaper = None
        return left


def _describe(pid: int) -> Leftover:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = "(gone)"
    return Leftover(pid=pid, command=command[:200])
