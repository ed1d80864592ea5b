"""The canonical form of a schedule: what is stored, compared and shown in JSON.

Defaults are written out, keys have one order, durations are seconds, instants are RFC 3339 in UTC, and
`parse(canonical(s)) == s`. Weakness: two spellings of one set (`1,2` and `1-2`) keep their own forms.
"""

from __future__ import annotations

import json
from datetime import datetime

from tocsin.schedules.model import AtSchedule, CronSchedule, DayMatch, EverySchedule, Schedule
from tocsin.schedules.values import instant_text, seconds_number


def canonical(schedule: Schedule) -> dict[str, object]:
    """The schedule as a JSON-ready mapping that `parse` takes back."""
    form: dict[str, object]
    match schedule:
        case CronSchedule():
            form = {
                "cron": schedule.expression,
                "timeZone": schedule.time_zone,
                "gap": schedule.gap.value,
                "fold": schedule.fold.value,
            }
            if (
                schedule.day_match is not DayMatch.CRON
            ):  # left out otherwise: specs stored before keep their number
                form["dayMatch"] = schedule.day_match.value
        case EverySchedule():
            form = {
                "everySec": seconds_number(schedule.interval),
                "anchor": instant_text(schedule.anchor),
                "timeZone": schedule.time_zone,
            }
        case AtSchedule():
            form = {"at": instant_text(schedule.instant), "timeZone": schedule.time_zone}
    form["start"] = _bound(schedule.start)
    form["end"] = _bound(schedule.end)
    form["jitterSec"] = seconds_number(schedule.jitter)
    return form


def spec_key(schedule: Schedule) -> str:
    """Canonical JSON of only what decides the nominal times; equal keys fire at equal instants.

    Leaves out jitter, the zone of `every` and `at`, and gap and fold of a wildcard cron job.
    """
    form = canonical(schedule)
    del form["jitterSec"]
    if not isinstance(schedule, CronSchedule):
        del form["timeZone"]
    elif schedule.plan.table.wildcard:
        del form["gap"], form["fold"]
    return json.dumps(form, separators=(",", ":"), sort_keys=True)


def _bound(when: datetime | None) -> str | None:
    return None if when is None else instant_text(when)
