"""Gets the run's container going: creates and starts it, or adopts the one that is there. In a thread of the engine.

The name is the run's, so of all workers that try on one engine one creates the container, and the others meet it:

- running: adopted. The worker that started it is dead, or has lost its lease and will find out.
- ended: adopted as it is; its end has not been recorded, for a container is removed before its end is written.
- created and never started: removed and created anew. Whoever was about to start it is told that it is gone.
- made by a later attempt than ours: our lease is lost.

Before each step that changes something the lease is looked at (`mine`), so a worker that was stopped for longer
than its lease does nothing when it wakes. Weakness: it may be stopped between the look and the step. Then a
container of a run that is over can start; the janitor ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound

from tocsin.errors import TocsinError
from tocsin_tasks.containers.engine import RefusedError
from tocsin_tasks.containers.spec import attempt_of

TRIES = 100
AGAIN_SECONDS = 0.1  # between two looks at a container that is being removed
NAME_TAKEN = 409


class LostError(TocsinError):
    """The lease is not ours any more."""

    code = "lease_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The run's container. `started_at` is the engine's own text; empty when it is not known."""

    id: str
    adopted: bool = False
    started_at: str = ""


def place(client: APIClient, attempt: int, config: dict[str, Any], mine: Callable[[], bool]) -> Placed:
    """The container of the run, started. Raises LostError, RefusedError and the SDK's errors."""
    for _ in range(TRIES):
        check(mine)
        try:
            made = client.create_container(**config)["Id"]
        except APIError as error:
            if error.status_code != NAME_TAKEN:
                raise
        else:
            return _start(client, made, mine)
        adopted = adopt(client, attempt, config["name"], mine)
        if adopted is not None:
            return adopted
        threading.Event().wait(AGAIN_SECONDS)
    raise RefusedError(NAME_TAKEN, "the container of an earlier attempt is still being removed")


def adopt(client: APIClient, attempt: int, name: str, mine: Callable[[], bool]) -> Placed | None:
    """The container of this name if it has been started, by whomever; None when there is none to adopt."""
    try:
        found = client.inspect_container(name)
    except NotFound:
        return None
    if attempt_of(found["Config"].get("Labels") or {}) > attempt:
        raise LostError("a later attempt has a container already")
    state = found["State"]
    if state["Status"] == "created":
        check(mine)
        _remove(client, found["Id"])
        return None
    if state["Status"] == "removing" or state.get("Dead"):
        return None
    return Placed(id=found["Id"], adopted=True, started_at=state.get("StartedAt") or "")


def check(mine: Callable[[], bool]) -> None:
    """Raises LostError when the lease is not ours any more."""
    if not mine():
        raise LostError("the lease ran out")


def _start(client: APIClient, made: str, mine: Callable[[], bool]) -> Placed:
    check(mine)
    try:
        client.start(made)
    except NotFound as error:
        if "No such container" in str(error.explanation):
            raise LostError("another attempt has taken the container's place") from None
        _remove(client, made)
        raise
    except APIError:
        _remove(client, made)
        raise
    return Placed(id=made)


def _remove(client: APIClient, made: str) -> None:
    """Only one that does not run: whoever started it meanwhile keeps it."""
    try:
        client.remove_container(made, v=True)
    except APIError as error:
        if error.status_code not in (404, 409):
            raise
