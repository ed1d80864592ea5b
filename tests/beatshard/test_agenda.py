"""What is fired first, how fast what is late comes, and when that rate rises."""

from __future__ import annotations

from collections import Counter

from beatshard.agenda import LATE_S, PATIENCE_S, TOGETHER, Agenda

NOW = 1000.0
OLD = NOW - LATE_S - 1


def fire(agenda: Agenda, now: float, batch: int = 2000) -> Counter[int]:
    """Pick until nothing may be fired, as if every pick found as much as it may take."""
    fired: Counter[int] = Counter()
    while (pick := agenda.pick(now, batch, 1000)) is not None:
        for partition in pick.due:
            fired[partition] += pick.limit if pick.late else 1
        if pick.late:
            agenda.spend(pick.limit * len(pick.due))
    return fired


def test_what_is_on_time_goes_first_and_is_not_counted() -> None:
    agenda = Agenda(10)
    agenda.replace([(OLD, 1, 1000), (NOW - 1, 2, 1), (NOW + 1, 3, 1)], NOW)
    first = agenda.pick(NOW, 2000, 1000)
    assert first is not None
    assert (first.due, first.late) == ({2: NOW - 1}, False)
    assert fire(agenda, NOW) == {1: 10}
    assert fire(agenda, NOW + 1) == {3: 1, 1: 10}


def test_all_of_a_late_partition_is_in_the_late_lane() -> None:
    agenda = Agenda(10)
    agenda.replace([(OLD, 1, 500), (NOW, 1, 5)], NOW)
    agenda.add(NOW, 1, NOW)
    agenda.add(OLD, 2, NOW)
    pick = agenda.pick(NOW, 2000, 1000)
    assert pick is not None
    assert (pick.late, set(pick.due), pick.limit) == (True, {1, 2}, 5)


def test_late_triggers_come_at_the_rate() -> None:
    agenda = Agenda(100)
    agenda.replace([(OLD - n, n, 1000) for n in range(200)], NOW)
    total = sum(sum(fire(agenda, NOW + step / 20).values()) for step in range(201))
    assert 1000 <= total <= 1100, "ten seconds at 100 and the second it began with"


def test_the_oldest_go_first_a_few_at_once() -> None:
    agenda = Agenda(1000)
    agenda.replace([(OLD - n, n, 9) for n in range(200)], NOW)
    pick = agenda.pick(NOW, 2000, 1000)
    assert pick is not None
    assert set(pick.due) == set(range(200 - TOGETHER, 200))
    assert pick.limit == 1000 // TOGETHER


def test_the_loop_sleeps_until_there_are_tokens() -> None:
    agenda = Agenda(10)
    assert agenda.wake_at(NOW) is None
    agenda.replace([(NOW + 5, 2, 1)], NOW)
    assert agenda.wake_at(NOW) == NOW + 5
    agenda.replace([(OLD, 1, 100), (NOW + 5, 2, 1)], NOW)
    fire(agenda, NOW)
    woken = agenda.wake_at(NOW)
    assert woken is not None
    assert NOW < woken < NOW + 1


def test_the_rate_doubles_while_what_is_late_only_grows_older() -> None:
    agenda = Agenda(10)
    rates = []
    for second in range(int(3 * PATIENCE_S)):
        agenda.replace([(OLD, 1, 1000)], NOW + second)
        rates.append(agenda.recovery_rate)
    assert rates[0] == 10
    assert rates[-1] == 40
    agenda.replace([], NOW + 1000)
    assert agenda.recovery_rate == 10


def test_the_rate_stays_while_the_backlog_grows_younger() -> None:
    agenda = Agenda(10)
    for second in range(int(3 * PATIENCE_S)):
        agenda.replace([(OLD - 1000 + 3.0 * second, 1, 1000)], NOW + second)
    assert agenda.recovery_rate == 10


def test_a_burst_that_takes_long_is_not_late() -> None:
    """What was due while the node had the partition and fired all the time waits for nothing but its turn."""
    agenda = Agenda(10)
    agenda.own([1], NOW - 100)
    for second in range(30):
        agenda.pick(NOW + second, 1, 1000)
        agenda.replace([(NOW, 1, 1000)], NOW + second)
        pick = agenda.pick(NOW + second, 1, 1000)
        assert pick is not None
        assert not pick.late


def test_what_was_due_before_the_partition_was_taken_is_late() -> None:
    agenda = Agenda(10)
    agenda.own([1, 2], NOW - 100)
    agenda.pick(NOW - 1, 1, 1)
    agenda.own([2, 3], NOW)
    agenda.replace([(OLD, 3, 1)], NOW)
    pick = agenda.pick(NOW, 1, 1)
    assert pick is not None
    assert pick.late
    agenda.own([1, 3], NOW + 1)
    agenda.replace([(OLD, 1, 1)], NOW + 1)
    pick = agenda.pick(NOW + 2, 1, 1)
    assert pick is not None
    assert pick.late, "given up and taken again"


def test_what_was_due_before_a_stall_ended_is_late() -> None:
    agenda = Agenda(10)
    agenda.own([1], NOW - 100)
    agenda.pick(NOW - LATE_S - 5, 1, 1)
    agenda.replace([(OLD, 1, 1)], NOW)
    pick = agenda.pick(NOW, 1, 1)
    assert pick is not None
    assert pick.late
