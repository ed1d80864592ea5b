"""Load for the cluster test, and the verdict: what should have been called against what the witness wrote down.

A wave is a number of jobs that all run every second from one instant to another, both included, so that what must
be called is known without asking tocsin: every (job, second) once. The witness's log says what was called.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cluster.engine import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """`jobs` jobs, each at every full second from `start` for `seconds` seconds."""

    name: str
    jobs: int
    start: datetime
    seconds: int

    @property
    def end(self) -> datetime:
        """The last second."""
        return self.start + timedelta(seconds=self.seconds - 1)

    def expected(self) -> set[tuple[str, datetime]]:
        """Every (job, nominal time)."""
        return {
            (f"{self.name}-{job}", self.start + timedelta(seconds=second))
            for job in range(self.jobs)
            for second in range(self.seconds)
        }

    def create(self, api: str) -> None:
        """Make the jobs. Raises ClusterError when the API refuses one."""
        for job in range(self.jobs):
            schedule = {"cron": "0-59 * * * * *", "start": _text(self.start), "end": _text(self.end)}
            document = {
                "name": f"{self.name}-{job}",
                "schedule": schedule,
                "catchUp": {"mode": "all", "window": "1h"},
                "task": {"http": {"url": "http://witness:8080/ok", "method": "POST"}},
            }
            request = urllib.request.Request(
                f"{api}/jobs", json.dumps(document).encode(), {"Content-Type": "application/json"}
            )
            _ask(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the witness says of a wave. Lateness is from the nominal time to the call, in seconds."""

    expected: int
    missed: int
    double_runs: int  # runs whose target was called more than once
    unasked: int  # calls of the wave's jobs for a time that is none of theirs
    late_median: float
    late_worst: float

    @property
    def good(self) -> bool:
        """Whether everything was called, and only once."""
        return self.expected > 0 and not (self.missed or self.double_runs or self.unasked)

    def __str__(self) -> str:
        return (
            f"{self.expected} runs: missed {self.missed}, double runs {self.double_runs}, unasked {self.unasked}, "
            f"late by {self.late_median:.2f} s (median), {self.late_worst:.2f} s (worst)"
        )


def judge(wave: Wave, log: Iterable[str]) -> Verdict:
    """Compare the witness's lines with what the wave asked for."""
    expected = wave.expected()
    calls: Counter[str] = Counter()
    seen: set[tuple[str, datetime]] = set()
    late = []
    for line in log:
        call = json.loads(line)
        headers = call["headers"]
        job = headers.get("tocsin-job", "")
        if job.rsplit("-", 1)[0] != wave.name:
            continue
        nominal = datetime.fromisoformat(headers["tocsin-nominal-time"])
        calls[headers["idempotency-key"]] += 1
        seen.add((job, nominal))
        late.append(call["received_at"] / 1e9 - nominal.timestamp())
    late.sort()
    return Verdict(
        expected=len(expected),
        missed=len(expected - seen),
        double_runs=sum(count > 1 for count in calls.values()),
        unasked=len(seen - expected),
        late_median=late[len(late) // 2] if late else 0.0,
        late_worst=late[-1] if late else 0.0,
    )


def next_second(after: float) -> datetime:
    """The full second at least `after` seconds from now."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=after + 1)


def _ask(request: urllib.request.Request) -> None:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        raise ClusterError(f"the API refuses a job: {error.read().decode(errors='replace')[:1000]}") from None


def _text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
