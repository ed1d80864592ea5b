"""Events under load: a run is told of whole or not at all, the rate is bounded, trouble is nobody's trouble."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from tocsin.clock import to_micros
from tocsin.ids import RunKey, new_job_id
from tocsin.model.status import RunStatus
from tocsin.store.leases import Claimed, Lease
from tocsin_tasks.attempts import Attempt
from tocsin_tasks.events import WAITING, TaskEvents

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Sink:
    """A dispatcher that keeps what it is told to send."""

    def __init__(self, *, groups: set[str] | None = None, breaks: bool = False) -> None:
        self.enabled, self.groups, self.breaks = True, groups or set(), breaks
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send(self, kind: str, **fields: Any) -> None:
        if self.breaks:
            raise ConnectionError("gone")
        self.sent.append((kind, fields))


def _attempt(number: int) -> Attempt:
    key = RunKey(new_job_id("default", f"job-{number}", NOW), to_micros(NOW))
    lease = Lease(key=key, attempt=1, token=uuid4())
    claimed = Claimed(
        lease=lease, job_name=f"job-{number}", task={"http": {}}, retry_policy={}, timeout=1.0, limited=False,
        cancel_requested=False, lateness=0.0,
    )  # fmt: skip
    return Attempt(claimed=claimed, deadline=1.0, lease_end=1.0)


def test_above_the_rate_runs_are_left_out_whole() -> None:
    events, sink = TaskEvents(rate=0.0, burst=3.0), Sink()
    attempts = [_attempt(number) for number in range(10)]
    for attempt in attempts:
        events.began(attempt)
    for attempt in attempts:
        events.ended(attempt, RunStatus.SUCCEEDED)
    events.send(sink)
    kinds = [kind for kind, _ in sink.sent]
    assert kinds == ["task-received", "task-started"] * 3 + ["task-succeeded"] * 3
    assert {fields["uuid"] for _, fields in sink.sent} == {str(a.key) for a in attempts[:3]}


def test_name_is_the_kind_and_kwargs_name_job_and_run() -> None:
    events, sink = TaskEvents(), Sink()
    attempt = _attempt(7)
    events.began(attempt)
    events.send(sink)
    fields = sink.sent[0][1]
    assert fields["name"] == "tocsin.run.http"
    assert "'job-7'" in fields["kwargs"]
    assert str(attempt.key) in fields["kwargs"]


def test_what_cannot_be_sent_is_dropped() -> None:
    events = TaskEvents()
    events.began(_attempt(1))
    events.send(None)
    events.began(_attempt(2))
    events.send(Sink(breaks=True))
    events.began(_attempt(3))
    switched_off = Sink(groups={"worker"})
    events.send(switched_off)
    later = Sink()
    events.send(later)
    assert switched_off.sent == later.sent == []


def test_no_more_wait_than_the_limit() -> None:
    events, sink = TaskEvents(burst=float(WAITING)), Sink()
    for number in range(WAITING):
        events.began(_attempt(number))
    events.send(sink)
    assert len(sink.sent) == WAITING
