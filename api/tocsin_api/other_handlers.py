"""Previews, problems, health."""

from __future__ import annotations

from datetime import datetime

from tocsin import schedules
from tocsin.clock import now
from tocsin.errors import NotFoundError, ShardUnavailableError
from tocsin.settings import Settings
from tocsin.store import migrate, transactions
from tocsin_api.answers import Answer, as_json
from tocsin_api.calls import Call
from tocsin_api.models import PreviewBody
from tocsin_api.problem_types import TYPES
from tocsin_api.views import instant


def preview(call: Call) -> Answer:
    """POST /schedules/preview: pure, so no shard is asked."""
    body: PreviewBody = call.body
    start: datetime = body.from_ or now()
    times = schedules.preview(body.schedule, start, body.count)
    return as_json(
        {
            "times": [instant(time) for time in times],
            "description": schedules.describe(body.schedule),
            "schedule": schedules.canonical(body.schedule),
        }
    )


def health(call: Call) -> Answer:
    """GET /healthz: the process answers."""
    return as_json({"status": "ok", "problems": []})


def ready(call: Call) -> Answer:
    """GET /readyz: every shard can be reached and has the schema that this program knows.

    One that has not is named. 503 only when no shard serves: a process that can answer for some partitions
    should go on getting requests.
    """
    found, serving = unready(call.settings)
    status = "ok" if not found else "degraded" if serving else "unavailable"
    return as_json(
        {"status": status, "problems": found},
        200 if serving else 503,
        None if serving else {"retry-after": "2"},
    )


def unready(settings: Settings) -> tuple[list[str], bool]:
    """What is wrong with the shards, in words, and whether one of those with partitions is all right."""
    problems, serving = [], False
    head = migrate.head()
    for shard in settings.shards.shards:
        try:
            revision = transactions.run(shard, migrate.current)
        except ShardUnavailableError as error:
            problems.append(str(error))
            continue
        if revision != head:
            problems.append(
                f"shard {shard.name} has schema {revision or 'none'}, not {head}: run tocsin db upgrade"
            )
        else:
            serving |= bool(settings.shards.partitions_of(shard))
    return problems, serving


def explain(call: Call) -> Answer:
    """GET /problems/{code}: what a problem's `type` names."""
    kind = TYPES.get(call.path["code"])
    if kind is None:
        raise NotFoundError(f"there is no kind of problem {call.path['code'][:80]!r}")
    return as_json(
        {
            "code": kind.code,
            "status": kind.status,
            "title": kind.title,
            "meaning": kind.meaning,
            "fix": kind.fix,
        }
    )
