"""Chaos: seeds, one after the other, each on a cluster of its own.

    make chaos SEEDS=20            twenty seeds
    make chaos SEED=7              one seed again, with the evidence of each violation

Prints a line a seed and a table of verdicts; one JSON line a seed in `ops/chaos/out/results.jsonl`. The exit code
is 1 when any seed has a violation.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from chaos.cluster import Cluster, Shape
from chaos.evidence import explain
from chaos.trial import Options, run

OUT = Path(__file__).with_name("out")


def one(cluster: Cluster, seed: int, options: argparse.Namespace) -> Counter[str]:
    """Run a seed, tell and keep what came of it."""
    names = [name for name in options.faults.split(",") if name]
    history, found, figures = run(
        cluster,
        Options(seed=seed, seconds=options.seconds, names=names, size=options.size, hold=options.hold),
    )
    verdicts = Counter(finding.verdict for finding in found)
    figures |= {"verdicts": dict(verdicts), "mutant": options.mutant, "coordinator": options.coordinator}
    with (OUT / "results.jsonl").open("a") as file:
        file.write(json.dumps(figures) + "\n")
    print(json.dumps(figures), flush=True)
    if found:
        print(explain(history, found), flush=True)
    return verdicts


def main() -> int:
    """Run the seeds that the command line asks for."""
    parser = argparse.ArgumentParser(prog="make chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="this one only, keeping its files")
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--faults", default="", help="comma separated, in this order")
    parser.add_argument("--coordinator", choices=["zookeeper", "postgres"], default="zookeeper")
    parser.add_argument("--mutant", default="")
    parser.add_argument("--size", type=float, default=1.0, help="of the workload; 1 is some 350 jobs")
    parser.add_argument("--hold", type=float, default=6.0, help="seconds that most faults last")
    options = parser.parse_args()
    seeds = (
        [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    )
    shape = Shape(zookeepers=3 if options.coordinator == "zookeeper" else 1)
    place = OUT / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    place.mkdir(parents=True)
    total: Counter[str] = Counter()
    started = time.monotonic()
    with Cluster(place, shape, mutant=options.mutant) as cluster:
        print(
            f"the cluster is up after {time.monotonic() - started:.0f} s; its files are in {place}",
            flush=True,
        )
        for seed in seeds:
            total += one(cluster, seed, options)
    print("all seeds:", dict(total) or "no violation")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
