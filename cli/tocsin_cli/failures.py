"""Errors as the CLI shows them: what is wrong, where, and last what to do.

    error: there is no job "nightly-invoice"  [not_found]
      GET http://127.0.0.1:7420/jobs/name:nightly-invoice
      fix: list the jobs with `tocsin job list`

Everything goes to stderr. A problem document of the API becomes a Failure here and nowhere else; the server's
`fix` is printed as it came.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tocsin_cli.exits import ExitCode, exit_for_status

_MOST_PROBLEMS = 50
# The server speaks of its API; here the same advice in commands.
_COMMANDS: Mapping[str, str] = {
    "not_found": "check the name; `tocsin job list` shows the jobs, `tocsin run list JOB` the runs of one",
    "name_taken": "choose another name, or change the job with `tocsin job edit` or `tocsin apply`",
    "run_exists": "look at the run with `tocsin run list`, or repeat it with `tocsin run retry`",
    "run_final": "look at it with `tocsin run get`; `tocsin run retry` runs it once more",
    "run_not_final": "wait for its end with `tocsin run watch`, or end it with `tocsin run cancel`",
    "stale_version": "read the job again with `tocsin job get`, and repeat the change",
    "shard_unavailable": "try again in a moment; `tocsin shard list` names the shard that is away",
    "method_not_allowed": "the server is of another version; `tocsin --version` shows this one",
}
_DEFAULT_FIX: Mapping[ExitCode, str] = {
    ExitCode.NOT_FOUND: "check the name; `tocsin job list` shows the jobs there are",
    ExitCode.AUTH: "give a token that has the scope",
    ExitCode.CONFLICT: "read the current state with `tocsin job get`, then try again",
    ExitCode.UNREACHABLE: "try again in a moment; look at the server's log if it stays",
    ExitCode.INVALID: "correct the input and try again",
}


class Failure(Exception):
    """A command cannot do what was asked; `main` prints it and exits with `exit_code`."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: ExitCode,
        code: str,
        fix: str,
        where: str = "",
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.code = code
        self.fix = fix
        self.where = where
        self.problems = tuple(problems)

    def text(self) -> str:
        """The lines as they are printed; the fix is the last one."""
        lines = [f"error: {self.message}  [{self.code}]"]
        lines += [f"  {line}" for line in (*self.problems[:_MOST_PROBLEMS], self.where) if line]
        if len(self.problems) > _MOST_PROBLEMS:
            lines.append(f"  … and {len(self.problems) - _MOST_PROBLEMS} more")
        return "\n".join([*lines, f"  fix: {self.fix}"])


def usage(message: str, fix: str) -> Failure:
    """A command line that cannot be followed."""
    return Failure(message, exit_code=ExitCode.USAGE, code="usage", fix=fix)


def from_problem(status: int, document: object, where: str) -> Failure:
    """The Failure for an error answer; `document` is the decoded body, a problem document if all is well."""
    body: Mapping[str, Any] = document if isinstance(document, dict) else {}
    exit_code = exit_for_status(status)
    items = [item for item in body.get("errors") or () if isinstance(item, dict)]
    detail = str(body.get("detail") or body.get("title") or f"the server answered {status}")
    if len(items) == 1:  # three lines: the one fix belongs on the last
        fix = str(items[0].get("fix") or body.get("fix") or _DEFAULT_FIX[exit_code])
        problems = [_pointed(items[0])]
    else:
        fix = str(
            _COMMANDS.get(str(body.get("code")))
            or body.get("fix")
            or (_DEFAULT_FIX[exit_code] if not items else "correct these fields")
        )
        problems = [". ".join(filter(None, (_pointed(item), item.get("fix")))) for item in items]
    return Failure(
        detail.rstrip("."),
        exit_code=exit_code,
        code=str(body.get("code") or f"http_{status}"),
        fix=fix,
        where=where,
        problems=problems,
    )


def _pointed(item: Mapping[str, Any]) -> str:
    return f"{item.get('pointer') or '#'}: {item.get('detail') or item.get('code') or 'not valid'}"


def note(text: str) -> None:
    """Say something that is not data."""
    print(text, file=sys.stderr, flush=True)
