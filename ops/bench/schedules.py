"""How fast `next_after` answers, beside croniter in the same run.

Prints one JSON object a line: figure, value, unit, reference, ratio, conditions. The two are timed in turn,
round by round, and each keeps its best round, so that other load hurts both alike. Every evaluation starts
from another instant of a fixed list; the zone's rows and croniter's parse are warm, as in a long-lived
process. croniter gets a ready parsed object and is only asked for the next time.

    python ops/bench/schedules.py [--rounds 7] [--seconds 0.2]
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from zoneinfo import ZoneInfo

import croniter

from tocsin.schedules import next_after, parse

CASES = [
    ("0 * * * *", "Europe/Berlin"),
    ("*/15 * * * *", "America/New_York"),
    ("30 2 * * 1-5", "Europe/Berlin"),
    ("0 0 1 * *", "Asia/Tokyo"),
    ("0 0 29 2 *", "UTC"),
]
_INSTANTS = 200


def instants() -> list[datetime]:
    dice = random.Random(7)
    start = datetime(2025, 1, 1, tzinfo=UTC)
    return [start + timedelta(seconds=dice.randrange(2 * 365 * 86400)) for _ in range(_INSTANTS)]


def ours(expression: str, zone: str) -> Callable[[], None]:
    schedule = parse({"cron": expression, "timeZone": zone})
    asked = instants()

    def run() -> None:
        for at in asked:
            next_after(schedule, at)

    return run


def theirs(expression: str, zone: str) -> Callable[[], None]:
    place = ZoneInfo(zone)
    asked = [at.astimezone(place) for at in instants()]
    cron = croniter.croniter(expression, asked[0])

    def run() -> None:
        for at in asked:
            cron.get_next(datetime, start_time=at)

    return run


def rate(run: Callable[[], None], seconds: float) -> float:
    """Evaluations per second over at least `seconds`."""
    done, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        run()
        done += _INSTANTS
    return done / took


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=0.2)
    given = options.parse_args()
    release = version("croniter")
    for expression, zone in CASES:
        mine, other = ours(expression, zone), theirs(expression, zone)
        mine(), other()
        best_mine = best_other = 0.0
        for _ in range(given.rounds):
            best_mine = max(best_mine, rate(mine, given.seconds))
            best_other = max(best_other, rate(other, given.seconds))
        line = {
            "figure": f"next_after {expression} {zone}",
            "value": round(best_mine),
            "unit": "evaluations/s",
            "reference": round(best_other),
            "ratio": round(best_mine / best_other, 1),
            "conditions": f"one thread, best of {given.rounds} interleaved rounds of {given.seconds} s, "
            f"croniter {release}, Python {platform.python_version()}",
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
