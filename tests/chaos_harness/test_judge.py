"""The judge on histories made by hand: a sound one is green, and each defect has its verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import JOB, START, arrival, lost, nominal, run, sound, verdicts

from chaos.history import STOPPED, Change, Fault, Gap
from chaos.times import lateness


def test_a_sound_history_is_green() -> None:
    assert verdicts(sound()) == set()
    assert lateness(sound())[0] == [pytest.approx(0.1)] * 3


def test_a_nominal_time_without_a_trace() -> None:
    history = sound()
    del history.arrivals[1], history.runs[1]
    assert verdicts(history) == {"missed", "unaccounted"}


def test_a_run_that_was_never_sent() -> None:
    history = sound()
    del history.arrivals[1]
    assert "missed" in verdicts(history)


def test_a_run_that_tocsin_does_not_know() -> None:
    history = sound()
    del history.runs[1]
    assert verdicts(history) == {"unaccounted"}


def test_a_gap_needs_a_change_of_the_job() -> None:
    history = sound()
    del history.arrivals[2], history.runs[2]
    history.gaps = [Gap(job_id=JOB, first=nominal(30), last=nominal(30))]
    assert verdicts(history) == set(), "paused before it was fired"
    history.jobs[0].changes = history.jobs[0].changes[:1]
    history.ended = START + 35
    assert verdicts(history) == {"missed"}


def test_too_early_and_too_late() -> None:
    history = sound()
    history.arrivals[0] = arrival(10, delay=-0.2)
    assert verdicts(history) == {"early"}
    history.arrivals[0] = arrival(10, delay=5)
    assert verdicts(history) == {"late"}
    history.faults = [Fault(kind="kill-beat", target="beat0", start=START + 8, end=START + 9)]
    assert verdicts(history) == set()


def test_a_time_that_no_schedule_names() -> None:
    history = sound()
    history.arrivals.append(arrival(13))
    assert verdicts(history) == {"phantom"}


def test_a_time_of_a_schedule_that_no_longer_holds() -> None:
    history = sound()
    history.arrivals.append(arrival(40))
    assert verdicts(history) == {"stale"}


def test_two_runs_of_one_time() -> None:
    history = sound()
    history.arrivals.append(arrival(10 + 1e-6))
    assert verdicts(history) == {"double"}


def test_one_attempt_twice() -> None:
    history = sound()
    history.arrivals.append(arrival(10, delay=0.3))
    assert "double" in verdicts(history)


def test_a_further_attempt_needs_a_failure_or_a_fault() -> None:
    history = sound()
    history.arrivals.append(arrival(10, delay=1, attempt=2))
    assert verdicts(history) == {"unjustified"}
    history.attempts = lost(10)
    assert verdicts(history) == {"unjustified"}, "no fault"
    history.faults = [Fault(kind="kill-worker", target="worker0", start=START + 10, end=START + 11)]
    assert verdicts(history) == set()
    history.attempts = {}
    assert verdicts(history) == {"unjustified"}, "nobody wrote down how the first one ended"
    failing = sound("flaky", failures=1)
    for second in (10, 20, 30):
        failing.attempts |= lost(second, reason="http_status")
    failing.arrivals += [arrival(second, delay=1, attempt=2) for second in (10, 20, 30)]
    assert verdicts(failing) == set()


def test_a_run_that_ended_well_too_soon() -> None:
    assert verdicts(sound("flaky", failures=1)) == {"wrong"}


@pytest.mark.parametrize("kind", ["skip", "queue"])
def test_two_runs_at_once(kind: str) -> None:
    history = sound(kind, seconds=10.5)
    assert verdicts(history) == {"overlap"}
    history.attempts = lost(10) | lost(20)
    assert verdicts(history) == set()


def test_a_skip_needs_something_that_was_going_on() -> None:
    history = sound("skip", seconds=8)
    history.runs[1] = run(20, "skipped", reason="overlap")
    del history.arrivals[1]
    assert verdicts(history) == set(), "the run of 10 may have taken that long, near its end"
    history.jobs[0].seconds = 1
    assert verdicts(history) == {"missed"}, "the run of 10 had long ended"
    history.faults = [Fault(kind="outage", target="all nodes and workers", start=START + 11, end=START + 19)]
    assert verdicts(history) == set(), "its end could not be written down"
    history.faults = []
    del history.arrivals[0], history.runs[0]
    history.jobs[0].changes[0] = replace(history.jobs[0].changes[0], start=START + 11, end=START + 12)
    history.arrivals = [arrival(30)]
    assert verdicts(history) == {"missed"}


def test_what_has_not_ended() -> None:
    history = sound()
    history.runs[1] = run(20, "queued")
    assert verdicts(history) == {"stuck"}
    history = sound()
    history.overdue = 1
    assert verdicts(history) == {"stuck"}


def test_a_failed_run_of_a_target_that_answers() -> None:
    history = sound()
    history.runs[1] = run(20, "failed", reason="lease_expired")
    assert verdicts(history) == {"wrong"}


def test_a_node_without_the_partition() -> None:
    history = sound()
    history.usurped = ["partition 7"]
    assert verdicts(history) == {"usurped"}


def test_a_manual_run_that_never_came_and_one_that_nobody_asked_for() -> None:
    history = sound()
    history.jobs[0].manual = [f"run_{JOB}{nominal(15):014x}"]
    assert verdicts(history) == {"missed"}
    history.jobs[0].manual = []
    history.arrivals.append(arrival(15))
    history.runs.append(run(15, origin="manual"))
    assert verdicts(history) == {"double"}


def test_what_a_call_may_have_done_is_not_judged() -> None:
    """Between sending and answer of a call, a nominal time may be of the old state or of the new one."""
    history = sound()
    history.jobs[0].changes[1] = Change("pause", STOPPED, START + 25, START + 36)
    assert verdicts(history) == set()
    del history.arrivals[2], history.runs[2]
    assert verdicts(history) == set()
