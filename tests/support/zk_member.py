"""A member in a process of its own: `python -m support.zk_member COORDINATOR LEASE ZONE`.

It ticks as a node does and gives up at once what should move. A second thread asks `held()` every few
milliseconds and prints `held N at T node NAME` whenever the number changes, and `woke N at T` when it was itself
not run for a while. T is the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from time import monotonic

from beatshard.coordinator import CoordinationError
from beatshard.zk_coordinator import ZkCoordinator
from tocsin.coordination import parse_coordinator

_BETWEEN = 0.005  # seconds between two questions
_WOKE = 0.5  # seconds without a question, after which the process must have been stopped


def watch(member: ZkCoordinator, stopping: threading.Event) -> None:
    """Print what the member says that it holds."""
    asked, before = monotonic(), -1
    while not stopping.wait(_BETWEEN):
        held, now = len(member.held()), monotonic()
        if now - asked > _WOKE:
            print(f"woke {held} at {now:.3f}", flush=True)
        if held != before:
            print(f"held {held} at {now:.3f} node {member.node_id}", flush=True)
        asked, before = now, held


def main(coordinator: str, lease: str, zone: str = "") -> None:
    """Be a member until SIGTERM."""
    address = parse_coordinator(coordinator)
    assert address is not None
    member = ZkCoordinator(address, lease=float(lease), zone=zone)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=watch, args=(member, stopping), daemon=True).start()
    while not stopping.is_set():
        with suppress(CoordinationError):
            member.tick()
            member.release(member.surplus())
        member.changes.wait(min(0.2, member.tick_interval))
        member.changes.clear()
    member.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
