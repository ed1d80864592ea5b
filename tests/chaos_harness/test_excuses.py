"""What a fault excuses and what it does not, and what the catch-up policies promise: histories made by hand."""

from __future__ import annotations

import pytest
from histories import JOB, START, arrival, lost, nominal, run, sound, verdicts

from chaos import faults
from chaos.catchup import WINDOW
from chaos.history import Change, Fault, Gap, History, instant
from chaos.times import LATE, LOSES_LEASE, REACH, recovery

EVERY = {"every": "4s", "anchor": instant(START).isoformat()}


def fault(kind: str, start: float, end: float, target: str = "beat0") -> Fault:
    return Fault(kind=kind, target=target, start=START + start, end=START + end)


def test_each_fault_has_a_reach() -> None:
    assert REACH.keys() == faults.FULL.keys() | {"none"}
    assert faults.FULL.keys() >= LOSES_LEASE


@pytest.mark.parametrize("kind", ["kill-beat", "stop-beat", "outage", "restart-postgres"])
def test_a_run_long_after_a_fault_is_late(kind: str) -> None:
    history = sound()
    history.arrivals[2] = arrival(30, delay=LATE + 0.5)
    history.faults = [fault(kind, 1, 30 - REACH[kind] + 1, "all")]
    assert verdicts(history) == set()
    history.faults = [fault(kind, 1, 30 - REACH[kind] - 1, "all")]
    assert verdicts(history) == {"late"}


def test_a_recovery_that_takes_too_long_is_late() -> None:
    """What was due in the fault has to come within its reach, though the fault does excuse it until then."""
    history = sound()
    history.faults = [fault("kill-beat", 9, 11)]
    history.arrivals[0] = arrival(10, delay=1 + REACH["kill-beat"] + LATE - 0.5)
    assert verdicts(history) == set()
    assert recovery(history) == pytest.approx(REACH["kill-beat"] + LATE - 0.5)
    history.arrivals[0] = arrival(10, delay=1 + REACH["kill-beat"] + LATE + 0.5)
    assert verdicts(history) == {"late"}


def test_a_recovery_is_known_only_when_something_was_due_after_it() -> None:
    history = sound()
    assert recovery(history) is None
    history.faults = [fault("kill-beat", 12, 14)]
    assert recovery(history) == 0
    history.faults = [fault("kill-beat", 26, 28)]
    assert recovery(history) is None


def test_what_waits_for_an_earlier_run_is_no_recovery() -> None:
    history = sound()
    history.faults = [fault("kill-beat", 9, 11)]
    history.arrivals[0] = arrival(10, delay=9)
    assert recovery(history) == pytest.approx(8)
    history.jobs[0].kind = "queue"
    assert recovery(history) is None


def test_a_fault_of_one_database_excuses_nothing_of_another() -> None:
    history = sound()
    history.shards = 2  # the job's partition is 0
    history.arrivals[0] = arrival(10, delay=5)
    history.faults = [fault("restart-postgres", 9, 11, "pg0")]
    assert verdicts(history) == set()
    history.faults = [fault("restart-postgres", 9, 11, "pg1")]
    assert verdicts(history) == {"late"}


def repeated() -> History:
    history = sound()
    history.arrivals.append(arrival(10, delay=5, attempt=2))
    history.attempts = lost(10)
    return history


@pytest.mark.parametrize(
    ("cause", "justified"),
    [
        (fault("kill-worker", 9, 11, "worker0"), True),
        (fault("kill-worker", 9, 11, "worker1"), False),
        (fault("part-worker-postgres", 9, 11, "worker0-pg answers"), True),
        (fault("outage", 9, 11, "all nodes and workers"), True),
        (fault("restart-postgres", 9, 11, "pg0"), True),
        (fault("kill-beat", 9, 11), False),
        (fault("kill-rabbitmq-leader", 9, 11, "rabbit1"), False),
        (fault("kill-worker", 1, 5, "worker0"), False),
        (fault("kill-worker", 16, 18, "worker0"), False),
    ],
)
def test_a_further_attempt_needs_a_fault_of_its_worker(cause: Fault, justified: bool) -> None:
    history = repeated()
    history.faults = [cause]
    assert verdicts(history) == (set() if justified else {"unjustified"})


def test_an_answer_that_the_target_did_not_give_justifies_nothing() -> None:
    history = repeated()
    history.attempts = lost(10, reason="http_status")
    history.faults = [fault("kill-worker", 9, 11, "worker0")]
    assert verdicts(history) == {"unjustified"}


def dropped(kind: str, *, first: float, last: float, at: float) -> History:
    """A job every 4 s until 40 under a policy that drops; nothing was made in [first, last], told at `at`."""
    history = sound(kind)
    history.jobs[0].changes[0] = Change("create", EVERY, START + 1, START + 2)
    history.jobs[0].changes[1] = Change("pause", {}, START + 41, START + 42)
    times = [second for second in range(4, 41, 4) if not first <= second <= last]
    history.runs = [run(t, fired_at=START + (max(t, at) if first <= t <= at else t)) for t in times]
    history.arrivals = [arrival(t, delay=max(0.0, at - t if first <= t <= at else 0.0) + 0.1) for t in times]
    history.gaps = [Gap(job_id=JOB, first=nominal(first), last=nominal(last), recorded=START + at)]
    history.faults = [fault("outage", first - 1, at - 1, "all")]
    return history


def test_what_the_policies_drop_in_an_outage() -> None:
    assert verdicts(dropped("latest", first=8, last=20, at=25)) == set()
    assert verdicts(dropped("none", first=8, last=24, at=25)) == set()


def test_latest_keeps_the_last_one() -> None:
    assert verdicts(dropped("latest", first=8, last=24, at=25)) == {"missed"}


def test_none_keeps_none() -> None:
    assert verdicts(dropped("none", first=8, last=16, at=25)) == {"wrong"}


def test_within_the_window_nothing_is_dropped() -> None:
    assert WINDOW > 9
    assert verdicts(dropped("latest", first=8, last=12, at=17)) == {"missed"}


def test_nothing_is_dropped_without_a_fault() -> None:
    history = dropped("latest", first=8, last=20, at=25)
    history.faults = [fault("kill-beat", 30, 31)]
    assert "missed" in verdicts(history)


@pytest.mark.parametrize("kind", ["latest", "none"])
def test_what_should_have_been_dropped(kind: str) -> None:
    history = dropped(kind, first=8, last=24, at=25)
    history.gaps = []
    missing = [8, 12, 16, 20, 24]
    history.runs += [run(second, fired_at=START + 25) for second in missing]
    history.arrivals += [arrival(second, delay=25.1 - second) for second in missing]
    assert verdicts(history) == {"wrong"}


def test_all_drops_nothing() -> None:
    history = dropped("latest", first=8, last=20, at=25)
    history.jobs[0].kind = "plain"
    history.jobs[0].changes[1:] = []
    history.ended = START + 41
    assert verdicts(history) == {"missed"}
