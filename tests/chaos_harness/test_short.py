"""The short form of `make chaos`: two seeds of cheap faults on a small cluster, and one mutant as a check of the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cluster import Cluster, Shape
from chaos.evidence import explain
from chaos.mutate import MUTANTS, attempt
from chaos.trial import Options, run

SMALL = Shape(nodes=2, workers=2, databases=2, rabbits=1, zookeepers=1)
FAULTS = {1: ["kill-beat", "pause-worker"], 2: ["lost-commit", "kill-worker", "pause-beat"]}
# A machine that is busy with other things can be late, and can let a lease of four seconds run out; `make chaos` judges
# that as well.
TIMED = {"late", "unjustified"}


@pytest.mark.timeout(300)
def test_two_seeds_of_cheap_faults(tmp_path: Path) -> None:
    with Cluster(tmp_path, SMALL) as cluster:
        for seed, names in FAULTS.items():
            options = Options(seed=seed, seconds=18, names=names, size=0.5, hold=5, calm=1)
            history, found, figures = run(cluster, options)
            wrong = [finding for finding in found if finding.verdict not in TIMED]
            assert not wrong, explain(history, wrong)
            assert figures["faults"] == names
            assert figures["runs"] > 100


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["no-republish"])
def test_a_mutant_is_found(name: str) -> None:
    mutant = next(each for each in MUTANTS if each.name == name)
    right, verdicts, evidence = attempt(mutant, seconds=15, quiet=5)
    assert right, f"{verdicts}\n{evidence}"
