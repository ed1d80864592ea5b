"""Plan and apply job files against a server; shared by `apply`, `diff` and the samples of `tocsin dev`.

One GET for each job, one POST or PATCH for each that differs, nothing for the rest. Every PATCH names the
version that the plan was made from, so a job that changed in between is refused (exit code 5), not
overwritten.

Before the first write, every change goes through the server as a dry run, so that what it refuses is known while
nothing is written.

Weakness: the jobs are written one by one; when something happens between the dry run and the write (the server
stops, somebody else takes a name), the jobs before it are written. The rest is still tried, and applying again
goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocsin_cli.client import Client, job_path
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure
from tocsin_cli.files.jobfile import JobFile
from tocsin_cli.files.plan import Action, Step, plan_step


def plan(client: Client, jobs: Sequence[JobFile]) -> list[Step]:
    """What would be done, in the order of the files."""
    return [plan_step(job, _existing(client, job.name), client.now) for job in jobs]


def _existing(client: Client, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.get(job_path(name))
        return found
    except Failure as failure:
        if failure.exit_code is ExitCode.NOT_FOUND:
            return None
        raise


def try_out(client: Client, steps: Sequence[Step], failed: Callable[[Step, Failure], None]) -> Failure | None:
    """Have the server check every write without making it. Returns the first failure; `failed` is told of each."""
    _, first = _each(steps, failed, lambda step: _write(client, step, dry=True))
    return first


def carry_out(
    client: Client, steps: Sequence[Step], failed: Callable[[Step, Failure], None]
) -> tuple[int, Failure | None]:
    """Write what differs. Returns how many were written and the first failure; `failed` is told of each."""
    return _each(steps, failed, lambda step: _write(client, step))


def _each(
    steps: Sequence[Step], failed: Callable[[Step, Failure], None], act: Callable[[Step], None]
) -> tuple[int, Failure | None]:
    done = 0
    first: Failure | None = None
    for step in steps:
        if step.action is Action.UNCHANGED:
            continue
        try:
            act(step)
            done += 1
        except Failure as failure:
            failed(step, failure)
            first = first or failure
    return done, first


def _write(client: Client, step: Step, *, dry: bool = False) -> None:
    query = "?dryRun=true" if dry else ""
    if step.action is Action.CREATE:
        client.post(f"/jobs{query}", step.body)
    else:
        client.patch(f"{job_path(step.job_id or step.name)}{query}", step.body, version=step.version)
