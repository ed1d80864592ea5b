"""Real schedules against a running platform, judged by a witness that trusts nothing of tocsin's.

Starts `tocsin dev`, applies every valid expression of tests/data/expressions.csv as a job, in its own time zone
and in `--zones` more, each calling a receiver that keeps its own log. After `--minutes` across a quarter hour,
the log is judged against the slow oracle of the tests, which steps through every minute: every nominal time
must have arrived exactly once, not before its time, and nothing else may have arrived.

    python ops/acceptance/real_schedules.py --minutes 11 --zones 6

The weakness: receiver and platform share one machine, so their clocks agree; lateness includes the HTTP call.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from schedules.oracle import fires  # noqa: E402
from support.processes import Process  # noqa: E402
from support.receiver import Receiver  # noqa: E402

# Whole hours west and east, half and quarter hours, both hemispheres.
ZONES = (
    "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Auckland", "Asia/Tokyo",
    "America/St_Johns", "America/Los_Angeles", "Europe/Berlin", "Pacific/Chatham", "America/Sao_Paulo", "Asia/Dubai",
    "Europe/London", "Asia/Yangon", "Pacific/Honolulu", "Africa/Johannesburg", "Asia/Shanghai", "America/Denver",
    "Pacific/Apia", "Australia/Eucla", "Europe/Moscow", "America/Halifax", "Asia/Karachi", "Pacific/Kiritimati",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    name: str
    expression: str
    zone: str


def entries(zones: int) -> list[Entry]:
    """The distinct valid expressions in their zones and in the first `zones` of ZONES."""
    with (ROOT / "tests/data/expressions.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["valid"] == "yes"]
    pairs = [(row["expression"], row["timezone_or_empty"] or "UTC") for row in rows]
    pairs += [(row["expression"], zone) for row in rows for zone in ZONES[:zones]]
    return [Entry(f"real-{n:05}", *pair) for n, pair in enumerate(dict.fromkeys(pairs))]


def window(minutes: float) -> tuple[datetime, datetime]:
    """From a whole minute, for `minutes`, moved later until a quarter hour lies well inside."""
    start = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
    end = start + timedelta(minutes=minutes)
    quarter = start + timedelta(minutes=1)
    while quarter.minute % 15:
        quarter += timedelta(minutes=1)
    if quarter > end - timedelta(minutes=1):
        start = quarter - timedelta(minutes=1)
    return start, start + timedelta(minutes=minutes)


def apply(client: httpx.Client, items: list[Entry], target: str) -> None:
    for item in items:
        body = {
            "name": item.name,
            "schedule": {"cron": item.expression, "timeZone": item.zone},
            "task": {"http": {"url": f"{target}/ok"}},
        }
        answer = client.post("/jobs", json=body)
        if answer.status_code != 201:
            raise SystemExit(f"{item.expression!r} was refused: {answer.text}")


def judge(items: list[Entry], receiver: Receiver, start: datetime, end: datetime) -> dict[str, object]:
    expected = {
        (item.name, nominal) for item in items for nominal in fires(item.expression, item.zone, start, end)
    }
    arrived: Counter[tuple[str, datetime]] = Counter()
    lateness: list[float] = []
    early = 0
    for request in receiver.requests():
        headers = {name.lower(): value for name, value in request.headers.items()}
        if not headers.get("tocsin-job", "").startswith("real-"):
            continue
        nominal = datetime.fromisoformat(headers["tocsin-nominal-time"])
        if not start < nominal <= end:
            continue
        arrived[headers["tocsin-job"], nominal] += 1
        late = request.received_at / 1e9 - nominal.timestamp()
        early += late < 0
        lateness.append(late)
    lateness.sort()
    return {
        "jobs": len(items),
        "window": [start.isoformat(), end.isoformat()],
        "expected": len(expected),
        "arrived": len(arrived),
        "missed": len(expected - set(arrived)),
        "phantom": len(set(arrived) - expected),
        "double": sum(1 for count in arrived.values() if count > 1),
        "early": early,
        "lateness_p50_ms": round(1000 * lateness[len(lateness) // 2], 1) if lateness else None,
        "lateness_p99_ms": round(1000 * lateness[int(len(lateness) * 0.99)], 1) if lateness else None,
        "lateness_max_ms": round(1000 * lateness[-1], 1) if lateness else None,
        "examples_missed": sorted(map(str, expected - set(arrived)))[:5],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=11.0)
    parser.add_argument("--zones", type=int, default=6, help="more zones for every expression, 0 to 24")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds to wait for late arrivals")
    args = parser.parse_args()
    items = entries(args.zones)
    command = [sys.executable, "-m", "tocsin_cli", "dev", "--no-sample", "--port", "7520"]
    with tempfile.TemporaryDirectory() as temp, Receiver(Path(temp) / "received.jsonl") as receiver:
        with Process(command, env={"NO_COLOR": "1"}) as dev:
            address = dev.wait_for_line(r"API\s+(http://\S+)", timeout=180)[1]
            with httpx.Client(base_url=address, timeout=30) as client:
                began = time.monotonic()
                apply(client, items, receiver.url)
                print(f"{len(items)} jobs applied in {time.monotonic() - began:.1f} s", file=sys.stderr)
                start, end = window(args.minutes)
                print(f"judging {start:%H:%M:%S} to {end:%H:%M:%S} UTC", file=sys.stderr, flush=True)
                time.sleep(max(0.0, end.timestamp() - time.time()) + args.grace)
            dev.send_signal(signal.SIGINT)
            code = dev.wait(60)
        verdict = judge(items, receiver, start, end) | {"dev_exit_code": code}
    print(json.dumps(verdict, indent=2))
    bad = (
        verdict["missed"]
        or verdict["phantom"]
        or verdict["double"]
        or verdict["early"]
        or not verdict["arrived"]
    )
    return 1 if bad or code else 0


if __name__ == "__main__":
    raise SystemExit(main())
