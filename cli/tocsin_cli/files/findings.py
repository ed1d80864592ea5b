"""What is wrong with a job file, and the translation of pydantic's errors into it.

A finding prints as `file:line:col pointer: problem. fix`, which editors and CI logs make clickable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure
from tocsin_cli.files.yaml_strict import Place

if TYPE_CHECKING:
    from pydantic import ValidationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong at one place of one file."""

    file: str
    place: Place
    pointer: str
    problem: str
    fix: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.place.line}:{self.place.column}"
        return f"{where} {self.pointer}: {self.problem.rstrip('.')}. {self.fix[:1].upper()}{self.fix[1:]}"

    def as_dict(self) -> dict[str, Any]:
        """For `lint -o json`."""
        return {
            "file": self.file,
            "line": self.place.line,
            "column": self.place.column,
            "pointer": self.pointer,
            "detail": self.problem,
            "fix": self.fix,
        }


def failure(findings: Iterable[Finding], *, code: str = "invalid_file") -> Failure:
    """The findings as the end of a command."""
    found = list(findings)
    first = found[0]
    only = len(found) == 1
    return Failure(
        f"{first.file} is not valid" if only else f"{len(found)} problems in the job files",
        exit_code=ExitCode.INVALID,
        code=code,
        problems=[str(item) for item in found],
        fix=first.fix if only else "correct them; `tocsin lint -f …` checks again, without a server",
    )


def nearest(places: Mapping[str, Place], pointer: str) -> Place:
    """Where a pointer stands; for something missing, where its nearest parent stands."""
    while pointer not in places and "/" in pointer:
        pointer = pointer.rpartition("/")[0]
    return places.get(pointer, Place(1, 1))


def from_validation(error: ValidationError, raw: Any) -> list[tuple[str, str, str]]:
    """(pointer, problem, fix) of each error of a job document, as the API would say it."""
    from tocsin.model.job import JobDocument
    from tocsin.model.problems import problems_of

    return [(item.pointer, item.detail, item.fix) for item in problems_of(error, JobDocument, raw)]
