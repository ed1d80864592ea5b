"""A `tocsin dev` for tests: start it, use the CLI on it, look at its processes, end it in every way.

Every process that it starts carries a marker in its environment, by which /proc finds what is left of it.
PostgreSQL's main process overwrites its own environment, and is found by the supervisor that it is a child of.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.processes import Process
from support.reaper import wait_for_end
from tocsin.embedded.supervised import free_port

MARKER = "TOCSIN_TEST_DEV"
TOCSIN = [sys.executable, "-m", "tocsin_cli"]
START_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Dev:
    """One dev server on a port of its own, with temporary files in a directory of its own."""

    directory: Path
    arguments: tuple[str, ...] = ()
    port: int = 0
    marker: str = field(default_factory=lambda: secrets.token_hex(8))
    _process: Process | None = None
    url: str = ""

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def temporary(self) -> Path:
        """Where it makes its temporary directories."""
        return self.directory / "tmp"

    def launch(self) -> Self:
        """Start without waiting."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        self.temporary.chmod(0o777)
        self.port = self.port or free_port() % 20_000 + 20_000
        command = [*TOCSIN, "dev", "--port", str(self.port), *self.arguments]
        environment = {MARKER: self.marker, "TMPDIR": str(self.temporary)}
        self._process = Process(command, env=environment, cwd=self.directory, name="tocsin dev")
        return self

    def wait_ready(self) -> str:
        """Wait for the banner; returns its text."""
        self.url = self.process.wait_for_line(
            r"^  API +(http://\S+)", stream="stdout", timeout=START_SECONDS
        )[1]
        self.process.wait_for_line("^Development only", stream="stdout")
        return self.process.text("stdout")

    def cli(self, *arguments: str, timeout: float = 60.0) -> Said:
        """A command of the CLI, in a process of its own."""
        done = subprocess.run(
            [*TOCSIN, *arguments],
            env={**os.environ, "TOCSIN_API_URL": self.url},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """A command's data."""
        said = self.cli(*arguments, "-o", "json")
        assert said.code in {0, 1}, said.err
        return json.loads(said.out)

    def processes(self) -> list[int]:
        """The pids of all its processes that live, itself included, and their descendants."""
        mine = {pid for pid in _pids() if self._marked(pid)}
        while more := {pid for pid in _pids() if pid not in mine and _parent(pid) in mine}:
            mine |= more
        return sorted(mine)

    def assert_gone(self, before: list[int], seconds: float = 20.0) -> None:
        """None of these processes, nor any other of this server, nor a file of it is left."""
        wait_for_end(before, seconds)
        left = {pid: _command(pid) for pid in {*before, *self.processes()} if _alive(pid)}
        assert left == {}
        assert list(self.temporary.iterdir()) == []

    def __enter__(self) -> Self:
        self.launch()
        self.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop(timeout=30.0)

    def _marked(self, pid: int) -> bool:
        try:
            return f"{MARKER}={self.marker}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(
                b"\0"
            )
        except OSError:
            return False


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return ["X", "0"]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _alive(pid: int) -> bool:
    return _stat(pid)[0] not in {"X", "Z"}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return "?"
