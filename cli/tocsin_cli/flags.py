"""A job document from command-line flags, for `job create` and `job edit`.

Only what was given is in the document: `create` lets the model fill in the rest, `edit` merges it over the
job as it is. A new kind of schedule replaces the old one; a schedule flag alone (`--tz`) changes the old one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tocsin_cli.failures import usage

_KINDS = ("cron", "every", "at")

Cron = Annotated[str | None, typer.Option("--cron", help='Cron expression, quoted: "30 2 * * 1-5".')]
Every = Annotated[str | None, typer.Option("--every", help="Interval such as 15m.")]
At = Annotated[str | None, typer.Option("--at", help="One instant such as 2026-03-08T02:30:00Z.")]
Zone = Annotated[str | None, typer.Option("--tz", help="IANA time zone of the schedule.")]
Url = Annotated[str | None, typer.Option("--url", help="What to call.")]
Method = Annotated[str | None, typer.Option("--method", help="HTTP method; default POST.")]
Header = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME:VALUE", help="Request header. Repeatable.")
]
Body = Annotated[str | None, typer.Option("--body", help="Request body as text.")]
JsonBody = Annotated[str | None, typer.Option("--json", help="Request body as JSON.")]
Owner = Annotated[str | None, typer.Option("--owner", help="The team that answers for the job.")]
Label = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Label. Repeatable.")]
JobTimeout = Annotated[str | None, typer.Option("--timeout", help="Total time of one attempt, such as 90s.")]
Attempts = Annotated[int | None, typer.Option("--max-attempts", help="Attempts in all, the first included.")]
Overlap = Annotated[str | None, typer.Option("--overlap", help="allow, skip or queue.")]
Tier = Annotated[str | None, typer.Option("--tier", help="critical, default or batch.")]
Pool = Annotated[str | None, typer.Option("--pool", help="The workers that execute it.")]
Description = Annotated[str | None, typer.Option("--description", help="For people.")]


def document(  # one parameter per flag
    *,
    cron: str | None = None,
    every: str | None = None,
    at: str | None = None,
    tz: str | None = None,
    url: str | None = None,
    method: str | None = None,
    header: Sequence[str] | None = None,
    body: str | None = None,
    json_body: str | None = None,
    owner: str | None = None,
    label: Sequence[str] | None = None,
    timeout: str | None = None,
    max_attempts: int | None = None,
    overlap: str | None = None,
    tier: str | None = None,
    pool: str | None = None,
    description: str | None = None,
) -> dict[str, Any]:
    """The part of a job document that the flags say. Raises Failure for flags that contradict each other."""
    http = _given(url=url, method=method.upper() if method else None, body=body)
    if header:
        http["headers"] = dict(_pair(item, ":", "--header", "NAME:VALUE") for item in header)
    if json_body is not None:
        http["json"] = _json(json_body)
    return _given(
        schedule=_schedule(cron=cron, every=every, at=at, tz=tz),
        task={"http": http} if http else None,
        owner=owner,
        labels=dict(_pair(item, "=", "--label", "KEY=VALUE") for item in label) if label else None,
        timeout=timeout,
        retryPolicy={"maxAttempts": max_attempts} if max_attempts is not None else None,
        concurrency={"overlap": overlap} if overlap else None,
        tier=tier,
        pool=pool,
        description=description,
    )


def merged(job: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The job's canonical document with the flags' values in it."""
    result = dict(job)
    for key, value in change.items():
        if key == "schedule" and any(kind in value for kind in _KINDS):
            zone = (job.get("schedule") or {}).get("timeZone")
            result[key] = ({"timeZone": zone} if zone and "at" not in value else {}) | value
        elif key == "timeout":
            result.pop("timeoutSec", None)
            result[key] = value
        elif isinstance(value, dict) and key != "labels" and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def _schedule(
    *, cron: str | None, every: str | None, at: str | None, tz: str | None
) -> dict[str, Any] | None:
    kinds = _given(cron=cron, every=every, at=at)
    if len(kinds) > 1:
        raise usage(f"--{' and --'.join(kinds)} are both given", "keep one of --cron, --every and --at")
    schedule = kinds | _given(timeZone=tz)
    return schedule or None


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _pair(text: str, separator: str, flag: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise usage(f"{flag} {text!r} is not {form}", f"write {flag} {form}")
    return name.strip(), value.strip()


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise usage(f"--json is not JSON: {error}", "quote it for the shell: --json '{\"a\": 1}'") from None
