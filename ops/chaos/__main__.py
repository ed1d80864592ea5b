"""Chaos: seeds, one after the other, each on a cluster of its own.

    make chaos SEEDS=20            twenty seeds
    make chaos SEED=7              one seed again, with the evidence of each violation

Prints a line a seed and a table at the end; one JSON line a seed in `ops/chaos/out/results.jsonl`. A seed that the
harness could not finish is told as `broken`, and the next one goes on. The exit code is 1 when any seed has a
violation or is broken.

However this process ends, what it started ends with it: on SIGINT and SIGTERM by itself, on SIGKILL by the reaper
of the tests.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos import faults
from chaos.cluster import Cluster, Shape
from chaos.evidence import explain
from chaos.results import BROKEN, table
from chaos.trial import Options, run
from support.session import Session

OUT = Path(__file__).with_name("out")


@contextmanager
def cleaning_up() -> Iterator[None]:
    """What is started within ends with it, whatever ends this process; says what had to be ended by force."""
    session = Session()
    session.begin()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that context managers run
    try:
        yield
    finally:
        for left in session.end():
            print(f"was left, and is ended now: {left}", file=sys.stderr)


class Clusters:
    """One cluster serves all seeds, as long as each is clean: after a violation the next one begins on a new one."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self._place, self._options = place, options
        self._shape = Shape(zookeepers=3 if options.coordinator == "zookeeper" else 1)
        self._stack = ExitStack()
        self._current: Cluster | None = None
        self._count = 0

    def get(self) -> Cluster:
        """The running one, or a new one."""
        if self._current is None:
            self._count += 1
            directory = self._place / f"cluster-{self._count}"
            directory.mkdir(parents=True)
            cluster = Cluster(directory, self._shape, mutant=self._options.mutant)
            self._current = self._stack.enter_context(cluster)
        return self._current

    def close(self) -> None:
        """Stop it; the logs stay."""
        self._current = None
        self._stack.close()


def one(clusters: Clusters, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run a seed, tell and keep what came of it."""
    names = [name for name in options.faults.split(",") if name]
    started, where, said = time.monotonic(), "", ""
    try:
        cluster = clusters.get()
        where = cluster.directory.name
        history, found, figures = run(
            cluster,
            Options(
                seed=seed, seconds=options.seconds, names=names, size=options.size, hold=options.hold,
                outage=options.outage,
            ),
        )  # fmt: skip
        figures["verdicts"] = dict(Counter(finding.verdict for finding in found))
        said = explain(history, found)
    except Exception:
        figures = {"seed": seed, "verdicts": {BROKEN: 1}}
        said = traceback.format_exc()
    if figures["verdicts"]:
        clusters.close()
    figures |= {"mutant": options.mutant, "coordinator": options.coordinator, "files": where}
    figures["seconds"] = round(time.monotonic() - started, 1)
    with (OUT / "results.jsonl").open("a") as file:
        file.write(json.dumps(figures) + "\n")
    print(json.dumps(figures), said, sep="\n", end="\n" if said else "", flush=True)
    return figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--seconds", type=float, default=80, help="in which new faults come")
    parser.add_argument("--faults", default="", help="comma separated, in this order; see docs/chaos.md")
    parser.add_argument("--coordinator", choices=["zookeeper", "postgres"], default="zookeeper")
    parser.add_argument("--mutant", default="")
    parser.add_argument("--size", type=float, default=1.0, help="of the workload; 1 is some 350 jobs")
    parser.add_argument("--hold", type=float, default=6.0, help="seconds that most faults last")
    parser.add_argument("--outage", type=float, default=12.0, help="seconds that a total outage lasts")
    options = parser.parse_args()
    kinds = {name.partition(":")[0] for name in options.faults.split(",") if name}
    if unknown := kinds - faults.FULL.keys() - {"none"}:
        parser.error(
            f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(sorted(faults.FULL))}"
        )
    if options.coordinator == "postgres" and any("zookeeper" in kind for kind in kinds):
        parser.error("faults of ZooKeeper need --coordinator zookeeper")
    return options


def main() -> int:
    """Run the seeds that the command line asks for."""
    options = _arguments()
    last = options.first + options.seeds
    seeds = [options.seed] if options.seed is not None else range(options.first, last)
    place, started = OUT / f"{datetime.now(UTC):%Y%m%d-%H%M%S}", time.monotonic()
    place.mkdir(parents=True)
    with cleaning_up():
        clusters = Clusters(place, options)
        try:
            results = [one(clusters, seed, options) for seed in seeds]
        finally:
            clusters.close()
    print(table(results), f"{time.monotonic() - started:.0f} s; files in {place}", sep="\n")
    return 1 if any(each["verdicts"] for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
