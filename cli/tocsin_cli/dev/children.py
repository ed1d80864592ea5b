"""The dev server's side of its children: start, configure, read what they say, stop, kill.

Each child is in a session of its own, so that a terminal's Ctrl-C reaches only the dev server, which ends
them in order. What happens comes as events through one queue: a line of output, an end, a signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO

_KEPT_LINES = 30
_LONGEST_LINE = 4000


@dataclass(frozen=True, slots=True)
class Said:
    """A child wrote a line."""

    name: str
    line: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A process is gone; `code` is None for one that is not our child."""

    name: str
    code: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """The dev server was told to stop."""

    number: int


Event = Said | Ended | Told
Events = SimpleQueue[Event]


class Child:
    """One service in a process of its own, and its successors after crashes."""

    def __init__(self, name: str, ready: str, events: Events) -> None:
        self.name = name
        self._ready = re.compile(ready)
        self._events = events
        self.is_ready = False
        self.wanted = True
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = self._spawn()

    @property
    def pid(self) -> int:
        """The process that runs now, or ran last."""
        return self._process.pid

    def configure(self, variables: dict[str, str]) -> None:
        """Let the child, which has waited for this, begin."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already: the Ended event tells
            self._process.stdin.write(json.dumps(variables).encode() + b"\n")
            self._process.stdin.flush()

    def restart(self, variables: dict[str, str]) -> None:
        """A new process in the place of one that has ended."""
        self.close()
        self.is_ready = False
        self._process = self._spawn()
        self.configure(variables)

    def terminate(self) -> None:
        """Ask it to end."""
        self.wanted = False
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Wait for the end; what has not ended by then is killed with its group."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, 0.0))
        self.kill()
        self._process.wait()
        self.close()

    def kill(self) -> None:
        """SIGKILL for the child and whatever it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close our end of its standard input."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tocsin_cli.dev.child", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        reader = threading.Thread(
            target=self._read, args=(process, process.stdout), name=self.name, daemon=True
        )
        reader.start()
        return process

    def _read(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        with output:
            for raw in output:
                line = raw.decode(errors="replace").rstrip()[:_LONGEST_LINE]
                self.last_lines.append(line)
                self.is_ready = self.is_ready or bool(self._ready.search(line))
                self._events.put(Said(self.name, line))
        self._events.put(Ended(self.name, process.wait()))


def watch_foreign(name: str, pid: int, events: Events) -> None:
    """Tell when a process ends that is not our child (a database under its supervisor)."""
    import select

    def wait() -> None:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            select.select([descriptor], [], [])
            os.close(descriptor)
        events.put(Ended(name, None))

    if hasattr(os, "pidfd_open"):
        threading.Thread(target=wait, name=f"{name}-watch", daemon=True).start()
