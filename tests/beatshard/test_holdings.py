"""What a tick learned before a doubt arose does not restore the trust."""

from __future__ import annotations

from beatshard.holdings import Holdings, View

HELD = frozenset({1, 2, 3})


def view(valid_until: float = 10.0) -> View:
    return View(mine=HELD, wanted=frozenset({1, 2}), members=frozenset({"me"}), valid_until=valid_until)


def test_a_doubt_outdates_the_tick_that_is_under_way() -> None:
    holdings = Holdings(lambda: 0.0)
    before = holdings._doubts
    holdings._doubt()
    holdings._show(view(), before)
    assert holdings.held() == frozenset()
    assert holdings.members() == {"me"}, "what was seen is not forgotten"
    holdings._show(view(), holdings._doubts)
    assert holdings.held() == HELD


def test_forgetting_is_a_doubt_as_well() -> None:
    holdings = Holdings(lambda: 0.0)
    before = holdings._doubts
    holdings._show(view(), before)
    holdings.release({1})
    holdings._forget()
    holdings._show(view(), before)
    assert holdings.held() == frozenset()
    assert holdings._releasing() == frozenset(), "what was released belonged to what is forgotten"


def test_a_release_asks_for_a_tick_and_is_never_held_in_between() -> None:
    now = 0.0
    holdings = Holdings(lambda: now)
    holdings._show(view(), holdings._doubts)
    assert holdings.surplus() == {3}
    holdings.release({3, 7})
    assert holdings.changes.is_set()
    assert holdings._releasing() == {3}, "7 was never held"
    assert holdings.held() == {1, 2}
    holdings._given_back({3})
    assert holdings.held() == {1, 2}
    assert holdings.surplus() == frozenset()
    now = 10.0
    assert holdings.held() == frozenset()
    assert holdings.surplus() == frozenset(), "nothing to release that is not held"
