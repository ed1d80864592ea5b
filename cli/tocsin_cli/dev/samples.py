"""The jobs of a new dev server: the samples of `examples/`, and the canary that proves that runs run.

The canary is a job without a schedule that is run once by hand and deleted again; the banner waits for its
success, so a ready dev server has executed a run from end to end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tocsin_cli.applying import carry_out, plan
from tocsin_cli.client import Client, job_path
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure
from tocsin_cli.files.jobfile import load
from tocsin_cli.files.plan import Step

CANARY = "tocsin-dev-canary"
_PACKAGED = Path(__file__).resolve().parents[1] / "examples"
_CHECKOUT = Path(__file__).resolve().parents[3] / "examples"


def directory() -> Path:
    """Where the samples are: in the installed package, or in the checkout."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def apply_samples(client: Client, target: str) -> tuple[str, ...]:
    """Create or update the sample jobs; returns their names. Nobody's pause is undone."""
    loaded = load([str(directory())], {**os.environ, "TOCSIN_DEV_TARGET": target})
    assert not loaded.findings, [str(item) for item in loaded.findings]

    def failed(step: Step, failure: Failure) -> None:
        raise failure

    carry_out(client, plan(client, loaded.jobs), failed)
    return tuple(job.name for job in loaded.jobs)


def start_canary(client: Client, target: str) -> dict[str, Any]:
    """Make the canary and run it; returns the run."""
    document = {
        "name": CANARY,
        "owner": "tocsin",
        "description": "Made by `tocsin dev` to see that runs run, and deleted again.",
        "task": {"http": {"url": f"{target}/canary"}},
        "timeout": "5s",
        "retryPolicy": {"maxAttempts": 3, "initial": "1s"},
        "tier": "critical",
    }
    try:
        client.post("/jobs", document)
    except Failure as failure:
        if failure.exit_code is not ExitCode.CONFLICT:
            raise
        # A dev server on the same data was killed before it deleted its own.
        client.patch(job_path(CANARY), {"task": document["task"]})
    run: dict[str, Any] = client.post(f"{job_path(CANARY)}/runs", {})
    return run


def remove_canary(client: Client) -> None:
    """Delete the canary."""
    client.delete(job_path(CANARY))
