"""What has to change so that the server's jobs equal the files. Pure.

Both sides are compared in canonical form with every default written out, so a default that the server filled
in is no difference. `paused` is compared only when the file says it: applying never resumes a job that
somebody paused. Nothing is ever deleted.

Weakness: a merge patch (RFC 7396) cannot put a null inside an object; a JSON body that needs one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from tocsin import schedules
from tocsin.errors import ScheduleError
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure
from tocsin_cli.files.jobfile import JobFile

_SHOWN_FIRES = 3


class Action(StrEnum):
    """What apply does with one job."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field; `before` is None when it is new, `after` None when it goes."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The plan for one job. `body` is the POST or the merge patch; `version` is what it was made against."""

    name: str
    action: Action
    body: dict[str, Any]
    job_id: str | None = None
    version: int | None = None
    differences: tuple[Difference, ...] = ()
    next_before: tuple[datetime, ...] = ()
    next_after: tuple[datetime, ...] = ()


def plan_step(wanted: JobFile, existing: Mapping[str, Any] | None, now: datetime) -> Step:
    """The plan for one job file, given what the server has under that name."""
    document = wanted.job.document()
    if existing is None:
        fires = _fires(document.get("schedule"), now)
        return Step(name=wanted.name, action=Action.CREATE, body=document, next_after=fires)
    if not wanted.says_paused:
        del document["paused"]
    return plan_update(existing, document, now)


def plan_update(existing: Mapping[str, Any], document: Mapping[str, Any], now: datetime) -> Step:
    """The plan that brings an existing job to `document`; keys that the document lacks stay as they are."""
    present = {key: existing.get(key) for key in document}
    patch = merge_patch(present, document)
    if _without_nulls(patched(present, patch)) != _without_nulls(document) or _nulls_lost(document, patch):
        raise Failure(
            f"the change of {existing['name']} cannot be sent: a JSON body that is not new holds a null",
            exit_code=ExitCode.INVALID,
            code="null_in_patch",
            fix="write the request body as text under `body`, or delete the job and create it again",
        )
    differences = tuple(_differences("", present, document))
    moved = any(item.field == "schedule" or item.field.startswith("schedule.") for item in differences)
    return Step(
        name=str(existing["name"]),
        action=Action.UPDATE if patch else Action.UNCHANGED,
        body=patch,
        job_id=existing.get("jobId"),
        version=existing.get("version"),
        differences=differences,
        next_before=_fires(present.get("schedule"), now) if moved else (),
        next_after=_fires(document.get("schedule"), now) if moved else (),
    )


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The RFC 7396 patch from `old` to `new`; null and absent are one and the same."""
    patch: dict[str, Any] = {}
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            if below := merge_patch(before, after):
                patch[key] = below
        else:
            patch[key] = after
    return patch


def patched(old: Any, patch: Any) -> Any:
    """`old` after a merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = patched(result.get(key), value)
    return result


def _nulls_lost(document: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Whether the patch touches a request body in which a null has to arrive."""
    body = document.get("task", {}).get("http", {}).get("json")
    return "json" in patch.get("task", {}).get("http", {}) and _holds_null(body)


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(item is None or _holds_null(item) for item in value.values())
    return False


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _differences(path: str, old: Any, new: Any) -> list[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*new, *(key for key in old if key not in new)]:
            found += _differences(f"{path}.{key}" if path else key, old.get(key), new.get(key))
        return found
    return [] if old == new else [Difference(field=path, before=old, after=new)]


def _fires(schedule: Any, now: datetime) -> tuple[datetime, ...]:
    if not schedule:
        return ()
    try:
        return tuple(schedules.preview(schedules.parse(schedule), now, _SHOWN_FIRES))
    except ScheduleError:  # a newer server may know more than this CLI
        return ()
