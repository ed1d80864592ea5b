"""The JSON schema of a schedule, for the OpenAPI document and editors (a subset that draft 7 understands)."""

from __future__ import annotations

from typing import Any

_COMMON: dict[str, Any] = {
    "timeZone": {"type": "string", "description": "IANA time zone.", "examples": ["Europe/Berlin"]},
    "start": {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "First instant that may fire.",
    },
    "end": {"type": ["string", "null"], "format": "date-time", "description": "Last instant that may fire."},
    "jitter": {
        "type": "string",
        "description": "Spread of the start, such as 30s; stable for a job and a nominal time.",
    },
    "jitterSec": {"type": "number", "minimum": 0},
    "gap": {
        "enum": ["next_valid", "skip"],
        "description": "A local time that does not exist: next valid minute, or none.",
    },
    "fold": {"enum": ["first", "both"], "description": "A local time that comes twice: once, or both times."},
}


def _kind(key: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: schema, **more, **_COMMON},
    }


SCHEDULE_SCHEMA: dict[str, Any] = {
    "title": "Schedule",
    "description": "Exactly one of cron, every and at; or the cron expression alone as a string.",
    "anyOf": [
        {"type": "string", "examples": ["0 2 * * *", "@daily", "every 15m"]},
        _kind(
            "cron",
            {"type": "string", "examples": ["30 2 * * 1-5"]},
            dayMatch={
                "enum": ["cron", "all"],
                "description": "Day of month and day of week: as crontab has it, or both must match.",
            },
        )
        | {"required": ["cron"]},
        _kind(
            "every",
            {"type": "string", "examples": ["15m", "1h30m"]},
            everySec={"type": "number", "minimum": 1},
            anchor={"type": "string", "format": "date-time"},
        )
        | {"anyOf": [{"required": ["every"]}, {"required": ["everySec"]}]},
        _kind("at", {"type": "string", "examples": ["2026-03-08T02:30:00Z"]}) | {"required": ["at"]},
    ],
}
