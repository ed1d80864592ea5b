"""Merge patches (RFC 7396) on job documents, with the allowances a person expects.

A document has fields with two spellings (`timeout`, `timeoutSec`) and unions with exactly one key (`cron`,
`every`, `at`). The stored document is canonical; a patch that uses the other spelling, or another kind of
schedule, replaces what it means instead of standing beside it. The merged document is validated as a whole.
"""

from __future__ import annotations

from typing import Any

_FREE = frozenset({"task", "labels"})
_KINDS = {"cron": ("cron",), "every": ("every", "everySec"), "at": ("at",)}
_OWN = {"cron": ("gap", "fold"), "every": ("anchor",)}  # fields that mean nothing to the other kinds


def merge(target: Any, patch: Any, *, spellings: bool = False) -> Any:
    """The target with the patch applied; neither is changed. With `spellings`, `x` also replaces `xSec`."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if spellings:
            _drop_other_spelling(result, key, patch)
        if value is None:
            result.pop(key, None)
        else:
            # What is below a task and the labels are the user's own words.
            below = spellings and key not in _FREE
            result[key] = merge(result.get(key), value, spellings=below)
    return result


def _drop_other_spelling(result: dict[str, Any], key: str, patch: dict[str, Any]) -> None:
    for other in (f"{key}Sec", key.removesuffix("Sec")):
        if other not in patch:
            result.pop(other, None)


def merge_job(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A patch on a canonical job document."""
    schedule, new = document.get("schedule"), patch.get("schedule")
    if isinstance(schedule, dict) and isinstance(new, dict):
        document = {**document, "schedule": _without_old_kind(schedule, new)}
    merged: dict[str, Any] = merge(document, patch, spellings=True)
    return merged


def _without_old_kind(schedule: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    wanted = {kind for kind, keys in _KINDS.items() if any(patch.get(key) is not None for key in keys)}
    if len(wanted) != 1:
        return schedule
    other = {key for kind in _KINDS.keys() - wanted for key in (*_KINDS[kind], *_OWN.get(kind, ()))}
    return {key: value for key, value in schedule.items() if key not in other}
