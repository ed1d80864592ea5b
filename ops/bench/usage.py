"""CPU and memory of process trees, read from /proc.

Weakness: the CPU of a process that ended between two readings is lost; PostgreSQL's autovacuum workers end often,
so `Tree.cpu` of PostgreSQL is a little low. Linux only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))):
            found.setdefault(int(stat[1]), []).append(int(name))
    return found


def tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    children, todo, found = _children(), [pid], []
    while todo:
        found.append(one := todo.pop())
        todo += children.get(one, ())
    return found


def cpu(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds of each process, user and system."""
    return {pid: (int(stat[11]) + int(stat[12])) / _TICK for pid in pids if (stat := _stat(pid))}


def resident(pid: int, key: str = "VmRSS") -> float:
    """Resident memory in MiB; `VmHWM` is the peak. 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{key}:")), 0.0)


@dataclass(slots=True)
class Meter:
    """CPU seconds of named process trees since `start`, sampled so that most of short-lived children counts."""

    roots: dict[str, int]
    _seen: dict[str, dict[int, float]] = field(default_factory=dict)
    _first: dict[str, dict[int, float]] = field(default_factory=dict)

    def start(self) -> None:
        """Count from here."""
        self._first = {name: cpu(tree(pid)) for name, pid in self.roots.items()}
        self._seen = {name: dict(found) for name, found in self._first.items()}

    def sample(self) -> None:
        """Read again; call it every second or so."""
        for name, pid in self.roots.items():
            self._seen[name].update(cpu(tree(pid)))

    def seconds(self) -> dict[str, float]:
        """CPU seconds by name."""
        self.sample()
        return {
            name: sum(found.values()) - sum(self._first[name].values()) for name, found in self._seen.items()
        }
