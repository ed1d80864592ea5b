"""The exit codes of every command; `tocsin help exit-codes` prints this table.

1 is an answer ("no"), 2 and above mean that there is no answer. Scripts may rely on the numbers: they are
part of the interface and only ever added to.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code means."""

    OK = 0
    NO = 1
    USAGE = 2
    NOT_FOUND = 3
    AUTH = 4
    CONFLICT = 5
    UNREACHABLE = 6
    INVALID = 7
    TIMEOUT = 8
    BUG = 70
    INTERRUPTED = 130


MEANING: dict[ExitCode, str] = {
    ExitCode.OK: "done; the run succeeded; no differences",
    ExitCode.NO: "the answer is no: the run failed, differences or lint errors found, part of a batch failed",
    ExitCode.USAGE: "usage: unknown command or option, missing argument, a confirmation nobody can give",
    ExitCode.NOT_FOUND: "there is no such job or run",
    ExitCode.AUTH: "not logged in, or the token lacks a scope",
    ExitCode.CONFLICT: "conflict: the name is taken, the state forbids it, or the job changed meanwhile",
    ExitCode.UNREACHABLE: "the server is unreachable, overloaded, or did not answer in time",
    ExitCode.INVALID: "an input file or a request body is not valid",
    ExitCode.TIMEOUT: "--timeout is over and the run still goes on",
    ExitCode.BUG: "a bug in tocsin; run again with --debug and report the output",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C)",
}

_BY_STATUS: dict[int, ExitCode] = {
    **dict.fromkeys((401, 403), ExitCode.AUTH),
    **dict.fromkeys((404, 410), ExitCode.NOT_FOUND),
    **dict.fromkeys((409, 412, 428), ExitCode.CONFLICT),
    **dict.fromkeys((408, 429), ExitCode.UNREACHABLE),
}


def exit_for_status(status: int) -> ExitCode:
    """The exit code for an HTTP error status: a request we got wrong is 7, a server that cannot answer 6."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ExitCode.INVALID if 400 <= status < 500 else ExitCode.UNREACHABLE


def exit_for_run(status: str) -> ExitCode:
    """A finished run's outcome as an exit code."""
    return ExitCode.OK if status == "succeeded" else ExitCode.NO


def table() -> str:
    """The table as `tocsin help exit-codes` prints it."""
    return "\n".join(f"{code.value:>4}  {meaning}" for code, meaning in MEANING.items())
