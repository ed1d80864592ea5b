"""Ends what a test session started, when the session itself did not live long enough to do it.

Protocol: `python -I -S reaper.py <marker> <pid of pytest>` waits for the end of file on standard input or
for the end of pytest. Every process that a test starts inherits `TOCSIN_TEST_SESSION=<marker>`. What still
carries the marker after a grace period is killed. Linux only, as it reads /proc.

Weakness: PostgreSQL overwrites the memory that /proc shows as its environment; it is covered by its
supervisor.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

MARKER = "TOCSIN_TEST_SESSION"
_GRACE_SECONDS = 5.0


def marked(value: str) -> list[int]:
    """The pids of the processes, other than this one, whose environment carries the marker."""
    entry = f"{MARKER}={value}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environment:
            if entry in environment.read().split(b"\0"):
                found.append(int(name))
    return found


def wait_for_end(pids: list[int], seconds: float) -> list[int]:
    """Wait until the processes have ended; return those that have not."""
    left = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            left[os.pidfd_open(pid)] = pid
    try:
        poller = select.poll()
        for descriptor in left:
            poller.register(descriptor, select.POLLIN)
        waiting = set(left)
        while waiting:
            ended = poller.poll(seconds * 1000)
            for descriptor, _ in ended:
                poller.unregister(descriptor)
                waiting.discard(descriptor)
            if not ended:
                break
        return [left[descriptor] for descriptor in waiting]
    finally:
        for descriptor in left:
            os.close(descriptor)


def kill(pids: list[int]) -> None:
    """SIGKILL each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Wait for the end of the session, then end what it left."""
    value, pytest_pid = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getppid() == pytest_pid:
        select.select([sys.stdin.fileno(), os.pidfd_open(pytest_pid)], [], [])
    kill(wait_for_end(marked(value), _GRACE_SECONDS))
    kill(marked(value))


if __name__ == "__main__":
    main()
