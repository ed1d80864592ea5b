"""The errors tocsin raises on purpose. Retry, skip and cancel are values, not exceptions.

Every error that a user can cause carries a stable `code`, the `pointer` of the offending field (a JSON
pointer fragment such as `#/schedule/cron`) and a `fix`: one imperative sentence that says what to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with an input."""

    pointer: str
    code: str
    detail: str
    fix: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}; {self.fix}"


class TocsinError(Exception):
    """The root of every error that tocsin raises on purpose."""

    code = "error"


class ScheduleError(TocsinError, ValueError):
    """A schedule that cannot be accepted. `field` names the part: `hour`, `timeZone`, `cron`, `every`."""

    def __init__(self, *, code: str, field: str, detail: str, fix: str) -> None:
        super().__init__(f"{field}: {detail}; {fix}")
        self.code = code
        self.field = field
        self.detail = detail
        self.fix = fix


class ConflictError(TocsinError):
    """The request meets a state that forbids it (name taken, illegal status change)."""

    code = "conflict"

    def __init__(
        self, detail: str, *, code: str = "conflict", fix: str = "read the current state and try again"
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.fix = fix


class NotFoundError(TocsinError):
    """There is no such job, run or resource."""

    code = "not_found"


class GoneError(TocsinError):
    """The thing existed and is past its retention."""

    code = "gone"


class StaleVersionError(TocsinError):
    """`If-Match` named another version than the current one; `current` is the version in the store."""

    code = "stale_version"

    def __init__(self, current: int) -> None:
        super().__init__(f"the job is at version {current}")
        self.current = current


class InvalidError(TocsinError):
    """An input with one or more problems; nothing was written."""

    code = "validation"

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(p) for p in problems))
        self.problems = problems


class ShardUnavailableError(TocsinError):
    """The Postgres shard that holds the asked-for partition cannot be reached."""

    code = "shard_unavailable"


@dataclass(slots=True)
class ProblemList:
    """Collects problems so that one answer names them all."""

    items: list[Problem] = field(default_factory=list)

    def add(self, pointer: str, code: str, detail: str, fix: str) -> None:
        self.items.append(Problem(pointer=pointer, code=code, detail=detail, fix=fix))

    def raise_if_any(self) -> None:
        if self.items:
            raise InvalidError(self.items)
