"""What is wrong with a job file, and the translation of pydantic's errors into it.

A finding prints as `file:line:col pointer: problem. fix`, which editors and CI logs make clickable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure
from tocsin_cli.files.yaml_strict import Place, escape

if TYPE_CHECKING:
    from pydantic import ValidationError

_FIXES: Mapping[str, str] = {
    "missing": "add it",
    "extra_forbidden": "remove it, or correct the spelling",
    "string_type": "put the value in quotes",
    "dict_type": "write a mapping",
    "model_type": "write a mapping",
    "model_attributes_type": "write a mapping",
}

_SCHEDULE_FIELDS = frozenset(
    {"every", "everySec", "at", "anchor", "timeZone", "gap", "fold", "start", "end", "jitter", "jitterSec"}
)


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


def from_validation(error: ValidationError) -> list[tuple[str, str, str]]:
    """(pointer, problem, fix) of each error of a job document."""
    found = []
    for item in error.errors(include_url=False):
        context = item.get("ctx") or {}
        loc = [str(part) for part in item["loc"]]
        loc += _below(loc, context)
        pointer = "/".join(["#", *map(escape, loc)])
        found.append((pointer, _problem(item), str(context.get("fix") or _fix(item))))
    return found


def _below(loc: list[str], context: Mapping[str, Any]) -> list[str]:
    """The field inside the value that a custom error was raised for; a part of a cron is the cron."""
    if "field" in context:
        name = str(context["field"])
        return [] if name == "schedule" else [name if name in _SCHEDULE_FIELDS else "cron"]
    name = str(context.get("at") or "")
    return [name] if name and loc[-1:] != [name] else []


def _problem(item: Any) -> str:
    if item["type"] == "missing":
        return "this field is missing"
    if item["type"] == "extra_forbidden":
        return "there is no such field"
    return str(item["msg"])


def _fix(item: Any) -> str:
    context = item.get("ctx") or {}
    if item["type"] == "literal_error" or item["type"] == "enum":
        return f"write {context.get('expected', 'one of the known words')}"
    limits = [f"{word} {context[key]}" for key, word in _LIMITS.items() if key in context]
    if limits:
        return "write a value " + " and ".join(limits)
    if item["type"] == "string_pattern_mismatch":
        return "use letters, digits, dots, dashes and underscores; begin and end with a letter or digit"
    return _FIXES.get(item["type"], "compare it with the fields of `tocsin job get NAME -o yaml`")


_LIMITS = {
    "ge": "of at least",
    "gt": "greater than",
    "le": "of at most",
    "lt": "less than",
    "max_length": "of at most (length)",
    "min_length": "of at least (length)",
}
