"""Processes for tests: start one in a group of its own, wait for what it prints, and end it in every way.

Protocol: two reader threads collect the lines of stdout and stderr; `wait_for_line` waits on a condition,
never on a clock alone, and fails with the captured output when the process ends or the time runs out.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

Stream = Literal["stdout", "stderr"]
_KEPT_LINES = 20_000
_SHOWN_LINES = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output, without its line end."""

    stream: Stream
    text: str


class Process:
    """A process in its own group. As a context manager it is stopped, with its group, at the end."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        name: str | None = None,
    ) -> None:
        """Start `command`; `env` is added to this process's environment."""
        self.name = name or Path(command[0]).name
        self._lines: deque[Line] = deque(maxlen=_KEPT_LINES)
        self._count = 0
        self._open_streams = 2
        self._changed = threading.Condition()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        self._readers = [
            self._reader("stdout", self._popen.stdout),
            self._reader("stderr", self._popen.stderr),
        ]

    @property
    def pid(self) -> int:
        """The pid, which is also the group's id."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._popen.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._popen.poll()

    def text(self, stream: Stream | None = None) -> str:
        """What has been printed so far, on one stream or on both."""
        with self._changed:
            return "\n".join(line.text for line in self._lines if stream in (None, line.stream))

    def wait_for_line(
        self, pattern: str, *, timeout: float = 30.0, stream: Stream | None = None, skip: int = 0
    ) -> re.Match[str]:
        """Wait for a line that the pattern is found in, past and future; `skip` so many matches first."""
        expression = re.compile(pattern)
        deadline = time.monotonic() + timeout
        seen = 0
        with self._changed:
            while True:
                for line in self._since(seen):
                    match = expression.search(line.text) if stream in (None, line.stream) else None
                    if match and skip == 0:
                        return match
                    skip -= match is not None
                seen = self._count
                left = deadline - time.monotonic()
                if left <= 0 or self._open_streams == 0:
                    why = f"not within {timeout} s" if left <= 0 else "the process ended first"
                    raise AssertionError(f"no line matches {pattern!r}: {why}\n{self._report()}")
                self._changed.wait(left)

    def wait(self, timeout: float = 30.0) -> int:
        """Wait for the end and for the rest of the output; return the exit code."""
        try:
            code = self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            with self._changed:
                raise AssertionError(f"{self.name} still runs after {timeout} s\n{self._report()}") from None
        for reader in self._readers:
            reader.join(1.0)  # a grandchild may hold the streams open
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self._popen.send_signal(number)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children, as a terminal does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP the whole group."""
        self.signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT the whole group."""
        self.signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the whole group and wait for the end."""
        self.signal_group(signal.SIGKILL)
        self.wait()

    def terminate(self, timeout: float = 30.0) -> int:
        """SIGTERM the process, wait for its end and return its exit code."""
        self.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """End it whatever its state: resume, SIGTERM, after `timeout` SIGKILL for the whole group."""
        self.resume()
        self.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _since(self, seen: int) -> list[Line]:
        new = min(self._count - seen, len(self._lines))
        return list(islice(self._lines, len(self._lines) - new, None))

    def _report(self) -> str:
        shown = list(self._lines)[-_SHOWN_LINES:]
        body = "\n".join(f"  {line.stream[3]}| {line.text}" for line in shown) or "  (no output)"
        return f"{self.name}, pid {self.pid}, exit code {self._popen.poll()}; its output ends:\n{body}"

    def _reader(self, stream: Stream, source: IO[bytes] | None) -> threading.Thread:
        assert source is not None

        def read() -> None:
            with source:
                for raw in source:
                    with self._changed:
                        self._lines.append(Line(stream, raw.decode(errors="replace").rstrip("\r\n")))
                        self._count += 1
                        self._changed.notify_all()
            with self._changed:
                self._open_streams -= 1
                self._changed.notify_all()

        thread = threading.Thread(target=read, name=f"{self.name}-{stream}", daemon=True)
        thread.start()
        return thread
