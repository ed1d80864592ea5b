"""Proof of the checker: each mutant of tocsin has to turn the judge red, and tocsin as it is must not.

    make chaos-mutants [MUTANT=old-epoch]

Every mutant runs on a small cluster of its own, with the faults that bring its weakness to light. A node dies at a
named crash point where a kill at random would need luck. Prints a line a mutant; the exit code is 1 when one stays
green, or the control does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster import Cluster, Shape
from chaos.evidence import explain
from chaos.trial import Options, run

_SMALL = Shape(nodes=2, workers=1, databases=1, rabbits=1, zookeepers=1)
_DIES = {"beat0": "after-commit-before-publish:40"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What shows it: a verdict of `expected` must be among the findings."""

    name: str
    expected: frozenset[str]
    faults: list[str] = field(default_factory=list)
    crash: dict[str, str] = field(default_factory=dict)


def _mutant(name: str, *expected: str, faults: str = "", crash: dict[str, str] | None = None) -> Mutant:
    return Mutant(name=name, expected=frozenset(expected), faults=faults.split(), crash=crash or {})


MUTANTS = [
    _mutant("", faults="pause-beat:beat0", crash=_DIES),  # the control
    _mutant("drop-trigger", "missed", "unaccounted"),
    _mutant("fire-early", "early"),
    _mutant("old-epoch", "usurped", faults="pause-beat:beat0"),
    _mutant("no-republish", "stuck", "missed", crash={"beat0": "after-commit-before-publish:10"}),
    _mutant("run-twice", "double"),
    _mutant("lose-retry", "stuck"),
    _mutant("let-overlap", "overlap"),
    _mutant("ignore-version", "stale"),
]


def attempt(
    mutant: Mutant, seed: int = 1, seconds: float = 25.0, quiet: float = 15.0
) -> tuple[bool, Counter[str], str]:
    """Run one; whether it came out as it has to, the verdicts, and the evidence."""
    with (
        tempfile.TemporaryDirectory(prefix="tocsin-mutant-") as place,
        Cluster(Path(place), _SMALL, mutant=mutant.name, crash=mutant.crash) as cluster,
    ):
        options = Options(
            seed=seed, seconds=seconds, names=mutant.faults or ["none"], size=0.6, quiet=quiet, calm=3
        )
        history, found, _ = run(cluster, options)
    verdicts = Counter(finding.verdict for finding in found)
    right = bool(verdicts.keys() & mutant.expected) if mutant.name else not found
    return right, verdicts, explain(history, found)


def main() -> int:
    """Run the mutants that the command line asks for, or all."""
    parser = argparse.ArgumentParser(prog="make chaos-mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutant", help="this one only; `control` for tocsin as it is")
    wanted = parser.parse_args().mutant
    wrong = 0
    for mutant in MUTANTS:
        name = mutant.name or "control"
        if wanted not in (None, name):
            continue
        right, verdicts, evidence = attempt(mutant)
        wrong += not right
        print(f"{name:<16}{'as it has to' if right else 'WRONG':<14}{dict(verdicts)}", flush=True)
        if not right or wanted:
            print(evidence, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
