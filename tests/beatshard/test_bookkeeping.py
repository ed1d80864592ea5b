"""The pure parts of a node: who should own what, what is due, what is confirmed, how fast to recover."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beatshard.rate import Bucket
from beatshard.rendezvous import plan_ownership
from beatshard.watermark import Batch, Tracker
from beatshard.wheel import Wheel
from tocsin.ids import PARTITIONS

ALL = range(PARTITIONS)
AT = datetime(2026, 3, 1, tzinfo=UTC)


def names(count: int) -> list[str]:
    return [f"node-{n}" for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 32])
def test_members_share_evenly(count: int) -> None:
    plan = plan_ownership(names(count), ALL)
    shares = [list(plan.values()).count(name) for name in names(count)]
    assert sum(shares) == PARTITIONS
    fair = PARTITIONS / count
    assert all(abs(share - fair) <= 4.5 * fair**0.5 for share in shares)


@given(st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=8), st.text(min_size=1, max_size=12))
def test_a_member_that_comes_or_goes_moves_only_its_own(members: set[str], other: str) -> None:
    without, with_it = plan_ownership(members - {other}, ALL), plan_ownership(members | {other}, ALL)
    for partition, before in without.items():
        assert with_it[partition] in {before, other}


def test_the_order_of_the_members_does_not_matter() -> None:
    assert plan_ownership(names(5), ALL) == plan_ownership(names(5)[::-1], ALL)
    assert plan_ownership([], ALL) == {}


def batch(order: int, *partitions: int) -> Batch:
    """A batch whose marks tell its place in the order."""
    made = Batch(runs=[], marks={p: (1, AT + timedelta(seconds=order)) for p in partitions})
    made.left = 1
    return made


@given(st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=12), st.randoms())
def test_marks_are_those_of_the_longest_confirmed_prefix(touched: list[set[int]], random: object) -> None:
    tracker = Tracker()
    batches = [batch(n, *partitions) for n, partitions in enumerate(touched)]
    for each in batches:
        tracker.register(each)
    order = list(range(len(batches)))
    random.shuffle(order)  # type: ignore[attr-defined]
    confirmed: set[int] = set()
    written: dict[int, datetime] = {}
    for index in order:
        tracker.confirm(batches[index])
        confirmed.add(index)
        written.update({p: at for p, (_, at) in tracker.take().items()})
        prefix = next((n for n in range(len(batches)) if n not in confirmed), len(batches))
        expected: dict[int, datetime] = {}
        for n in range(prefix):
            expected.update(dict.fromkeys(touched[n], AT + timedelta(seconds=n)))
        assert written == expected
    assert tracker.open == 0
    assert tracker.take() == {}, "marks are handed out once"


def test_the_wheel_gives_what_is_due_in_order_up_to_the_batch() -> None:
    wheel = Wheel()
    wheel.replace([(3.0, 7, 5), (1.0, 8, 5), (2.0, 9, 5)])
    wheel.add(9.0, 10)
    assert wheel.next_due() == 1.0
    assert wheel.pop_due(0.5, 100) == {}
    assert wheel.pop_due(5.0, 6) == {8: 1.0, 9: 2.0}
    assert wheel.pop_due(5.0, 6) == {7: 3.0}
    assert len(wheel) == 1
    wheel.replace([])
    assert wheel.next_due() is None


def test_a_partition_that_is_due_twice_keeps_the_later_time() -> None:
    wheel = Wheel()
    wheel.replace([(1.0, 7, 1), (2.0, 7, 1)])
    assert wheel.pop_due(5.0, 100) == {7: 2.0}


def test_the_bucket_holds_a_second_and_fills_at_its_rate() -> None:
    bucket = Bucket(100)
    assert bucket.available(10.0) == 100
    bucket.take(100)
    assert bucket.available(10.0) == 0
    assert bucket.available(10.25) == 25
    assert bucket.available(99.0) == 100
    bucket.take(150)
    assert bucket.available(99.25) == -25
