"""A container that has ended: what is kept of it, and what its end means.

`harvest` reads state and output and removes the container with its anonymous volumes, before the end is written: a
container that is still there has an end that nobody has recorded. `outcome_of` is pure.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound

from tocsin.capture import HeadTail
from tocsin.model.policy import Failure
from tocsin.model.status import Reason
from tocsin.store.leases import Output
from tocsin_tasks.containers.spec import LOG_FILE_BYTES, LOG_FILES
from tocsin_tasks.outcome import Outcome

READ_BYTES = 2 * LOG_FILE_BYTES * LOG_FILES  # of a log at most; the engine's own limit lies below
CONTENT_TYPE = "text/plain; charset=utf-8"
_BY_SIGNAL = 128  # an exit code is this and the signal's number


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a container. `exit_code` is None when it never ran or is gone."""

    exit_code: int | None
    out_of_memory: bool = False
    error: str = ""  # the engine's own words, when it could not run the program
    output: Output | None = None


GONE = Ended(exit_code=None, error="somebody else removed the container")


def is_over(state: dict[str, Any]) -> bool:
    """Whether a container in this state has been started and has ended."""
    return state["Status"] in ("exited", "dead")


def harvest(client: APIClient, container: str, limit: int) -> Ended:
    """State and output of an ended container, which is gone afterwards."""
    try:
        state = client.inspect_container(container)["State"]
        output = read_output(client, container, limit)
        remove(client, container)
    except NotFound:
        return GONE
    return Ended(
        exit_code=int(state["ExitCode"]),
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        output=output,
    )


def read_output(client: APIClient, container: str, limit: int) -> Output | None:
    """The beginning and the end of what it printed on both streams, in the order in which it came."""
    kept = HeadTail(limit)
    stream = client.logs(container, stdout=True, stderr=True, stream=True, follow=False)
    try:
        for chunk in stream:
            kept.add(chunk)
            if kept.size > READ_BYTES:
                break
    finally:
        stream.close()
    return kept.output(CONTENT_TYPE)


def remove(client: APIClient, container: str, *, force: bool = False) -> None:
    """Remove it with its anonymous volumes; one that is gone or being removed is left alone."""
    try:
        client.remove_container(container, v=True, force=force)
    except APIError as error:
        if error.status_code not in (404, 409):
            raise


def has_ended(client: APIClient, container: str) -> bool:
    """Whether the container has ended, or is gone."""
    try:
        return is_over(client.inspect_container(container)["State"])
    except NotFound:
        return True


def send_signal(client: APIClient, container: str, name: str | None) -> None:
    """Send a signal, by default the one that the image asks to be stopped with."""
    try:
        name = name or client.inspect_container(container)["Config"].get("StopSignal") or "SIGTERM"
        client.kill(container, name)
    except APIError as error:
        if error.status_code not in (404, 409):  # it has ended
            raise


def outcome_of(ended: Ended, *, timeout: float | None = None) -> Outcome:
    """What the end means; `timeout` in seconds when the worker ended it for that."""
    code = ended.exit_code
    if timeout is not None:
        words = f"the container ran into the timeout of {timeout:g} s"
        return _failed(
            Reason.TIMEOUT, words + (f" and ended with {code_text(code)}" if code is not None else ""), ended
        )
    if code is None:
        return _failed(Reason.ENGINE, f"the container is gone: {ended.error}", ended)
    if code == 0:
        return Outcome(output=ended.output)
    if ended.out_of_memory:
        return _failed(Reason.OUT_OF_MEMORY, f"the container ran out of memory ({code_text(code)})", ended)
    if _signal_of(code):
        return _failed(
            Reason.SIGNAL, f"the container's program was ended by a signal: {code_text(code)}", ended
        )
    return _failed(Reason.EXIT_CODE, f"the container ended with {code_text(code)}", ended)


def code_text(code: int) -> str:
    """An exit code as people say it."""
    name = _signal_of(code)
    return f"exit code {code}" + (f", {name}" if name else "")


def _signal_of(code: int) -> str:
    try:
        return signal.Signals(code - _BY_SIGNAL).name if code > _BY_SIGNAL else ""
    except ValueError:
        return ""


def _failed(reason: Reason, words: str, ended: Ended) -> Outcome:
    told = f"{words}: {ended.error[:200]}" if ended.error and ended.exit_code is not None else words
    return Outcome(failure=Failure(reason=reason), error=told, output=ended.output)
