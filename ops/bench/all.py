"""Every benchmark in turn, each as a process of its own; the median and the spread of each figure at the end.

    python ops/bench/all.py [--iterations 3] [--small] [--only NAME …]

`--small` takes seconds instead of an hour: it shows that the benchmarks work, not how fast anything is. The figures
are appended to ops/bench/out/results.jsonl, one JSON line each, with the machine and the versions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import report

_HERE = Path(__file__).parent
# Script, and its arguments in the small form.
BENCHES: dict[str, list[str]] = {
    "emission": ["--triggers", "2000", "--burst", "500", "--lead", "20"],
    "peers": ["--entries", "100", "--runs", "500", "--slow", "50"],
    "endurance": ["--rate", "20", "--seconds", "5", "--lead", "20"],
    "size": [
        "--jobs",
        "3000",
        "--small",
        "500",
        "--due",
        "500",
        "--loaders",
        "1",
        "--stream",
        "50",
        "--rest",
        "3",
        "--lead",
        "8",
    ],
}


def main() -> int:
    """Run them; 1 when one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", choices=sorted(BENCHES), default=list(BENCHES))
    options = parser.parse_args()
    results = report.OUT / "results.jsonl"
    before = len(_lines(results))
    failed = []
    for name in options.only:
        for _ in range(options.iterations):
            command = [sys.executable, str(_HERE / f"{name}.py"), *(BENCHES[name] if options.small else [])]
            if subprocess.run(command, check=False).returncode:
                failed.append(name)
    print(f"\n{options.iterations} iterations: {summary(_lines(results)[before:])}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def summary(lines: list[str]) -> str:
    """The median of each figure with its least and its greatest value."""
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in lines:
        figure = json.loads(line)
        seen[figure["figure"], figure["unit"]].append(figure["value"])
    rows = [
        f"{name:<40} {statistics.median(values):>14,.2f} {unit:<14} {min(values):,.2f} to {max(values):,.2f}"
        for (name, unit), values in seen.items()
    ]
    return "median, least and greatest\n" + "\n".join(rows)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
