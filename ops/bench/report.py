"""Figures: one JSON line each in `ops/bench/out/results.jsonl`, and a table for people.

A figure is {"figure", "value", "unit", "reference", "ratio", "conditions"}. `reference` is what it was measured
against in the same run (a peer, or a bare loop), `ratio` is value / reference; both are null where none is.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

OUT = Path(os.environ.get("TOCSIN_BENCH_OUT") or Path(__file__).with_name("out"))
_NAMES = ("tocsin", "celery", "kombu", "psycopg", "celery-redbeat", "APScheduler", "procrastinate", "dbos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value; see the module."""

    figure: str
    value: float
    unit: str
    reference: float | None = None
    conditions: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.reference if self.reference else None


def scratch() -> Path:
    """A fresh directory for one measurement."""
    return Path(tempfile.mkdtemp(prefix="tocsin-bench-"))


def versions() -> str:
    """The machine and the versions of what is measured, in one line."""
    found = []
    for name in _NAMES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"
    return f"{machine}; Python {platform.python_version()}; {', '.join(found)}"


def write(figures: list[Figure]) -> None:
    """Append to the results and print the table."""
    OUT.mkdir(exist_ok=True)
    with (OUT / "results.jsonl").open("a") as file:
        for each in figures:
            file.write(json.dumps({**asdict(each), "ratio": each.ratio, "machine": versions()}) + "\n")
    print(versions())
    width = max(len(each.figure) for each in figures)
    for each in figures:
        beside = f"{each.reference:>12,.0f} {each.ratio:>8.2f} x" if each.ratio is not None else " " * 23
        print(f"{each.figure:<{width}} {each.value:>12,.2f} {each.unit:<10}{beside}  {each.conditions}")
    sys.stdout.flush()
