"""A plan as people read it: `+` create, `~` update with its fields, and the next fires before and after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tocsin.schedules.values import instant_text
from tocsin_cli.files.plan import Action, Step
from tocsin_cli.views.tables import clean
from tocsin_cli.views.times import wall, zone_of

_SIGN = {Action.CREATE: "+", Action.UPDATE: "~", Action.UNCHANGED: " "}
_LONGEST_VALUE = 100


def plan_text(steps: Sequence[Step], zones: dict[str, str | None]) -> str:
    """The lines of all steps that change something."""
    return "\n".join(line for step in steps for line in _step(step, zones.get(step.name)))


def summary(steps: Sequence[Step], *, done: bool) -> str:
    """`1 created, 2 updated, 3 unchanged`, or what would be."""
    count = {action: sum(step.action is action for step in steps) for action in Action}
    words = ("created", "updated") if done else ("to create", "to update")
    return (
        f"{count[Action.CREATE]} {words[0]}, {count[Action.UPDATE]} {words[1]}, "
        f"{count[Action.UNCHANGED]} unchanged"
    )


def as_dict(step: Step) -> dict[str, Any]:
    """One step for programs."""
    return {
        "name": step.name,
        "action": step.action.value,
        "changes": [
            {"field": item.field, "before": item.before, "after": item.after} for item in step.differences
        ],
        "nextBefore": [instant_text(fire) for fire in step.next_before],
        "nextAfter": [instant_text(fire) for fire in step.next_after],
    }


def _step(step: Step, zone: str | None) -> list[str]:
    if step.action is Action.UNCHANGED:
        return []
    lines = [f"{_SIGN[step.action]} {step.name}"]
    lines += [f"    {item.field}: {_value(item.before)} → {_value(item.after)}" for item in step.differences]
    if step.action is Action.CREATE and step.next_after:
        lines.append(f"    next: {_fires(step.next_after, zone)}")
    elif step.next_before or step.next_after:
        lines += [
            f"    next before: {_fires(step.next_before, zone)}",
            f"    next after:  {_fires(step.next_after, zone)}",
        ]
    return lines


def _fires(fires: Sequence[datetime], zone: str | None) -> str:
    return ", ".join(wall(fire, zone_of(zone)) for fire in fires) or "never"


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = clean(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
