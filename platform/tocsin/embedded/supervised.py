"""The parent's side of the supervisor: start a server, learn its pid, wait until it is ready, stop it.

Protocol: see `supervisor.py`. `Supervised` owns the write end of the supervisor's standard input; closing
it stops the server, and so does the end of this process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tocsin.embedded.supervisor import Spec
from tocsin.errors import TocsinError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_POLL_SECONDS = 0.01
_LOG_TAIL_BYTES = 2048


class EmbeddedServerError(TocsinError):
    """A server from a wheel is missing, did not start, or its directory is in use."""

    code = "embedded_server"


class Supervised:
    """A running server under a supervisor of its own."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        stop: Sequence[tuple[str, float]],
        death_signal: str,
        remove: Path | None = None,
        keep_fds: Sequence[int] = (),
    ) -> None:
        self.log = log
        self._stop_seconds = sum(seconds for _, seconds in stop) + 15
        spec: Spec = {
            "command": [str(part) for part in command],
            "log": str(log),
            "stop": list(stop),
            "death_signal": death_signal,
            "run_as": run_as(),
            "parent": os.getpid(),
            "remove": str(remove) if remove else None,
            "keep_fds": list(keep_fds),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=keep_fds,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EmbeddedServerError(f"cannot run {spec['command'][0]}; read the error above and {log}")
        self.pid = int(line)

    @property
    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.poll() is None

    def wait(self, timeout: float) -> int:
        """Wait for a command that ends by itself and return its exit code."""
        return self._process.wait(timeout)

    def wait_until(self, ready: Callable[[], bool], *, timeout: float, name: str) -> bool:
        """Wait for `ready()`; False when the server ended before, an error when the time ran out."""
        deadline = time.monotonic() + timeout
        try:
            while self.alive:
                if ready():
                    return True
                if time.monotonic() > deadline:
                    raise EmbeddedServerError(
                        f"{name} is not ready after {timeout:.0f} s; its log ends: {self.tail()}"
                    )
                time.sleep(_POLL_SECONDS)
        except BaseException:
            self.stop()
            raise
        return False

    def stop(self) -> None:
        """Stop the server and wait until it is gone. Calling it again does nothing."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait(self._stop_seconds)

    def tail(self) -> str:
        """The end of the server's log, for error messages."""
        try:
            return self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError as error:
            return f"(no log: {error})"


def run_as() -> tuple[int, int] | None:
    """The user for a server when this process is root, which PostgreSQL refuses: the system's `nobody`."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def own(directory: Path) -> None:
    """Make the directory and what is in it belong to the user that the server runs as."""
    user = run_as()
    if user is None or not directory.exists() or directory.stat().st_uid == user[0]:
        return
    for path in (*directory.rglob("*"), directory):
        os.chown(path, *user, follow_symlinks=False)


def free_port() -> int:
    """A TCP port that is free on the loopback interface now; the caller retries if somebody is faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_in_wheel(package: str, distribution: str, pattern: str) -> Path:
    """The one file of an installed wheel that matches; nothing of the package is imported."""
    spec = importlib.util.find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(root).glob(pattern)):
            return path
    raise EmbeddedServerError(
        f"{distribution} is not installed for this system; run: pip install 'tocsin[dev]'"
    )
