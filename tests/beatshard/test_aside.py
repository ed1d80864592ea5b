"""What was refused is tried again in its order, after pauses that grow and begin anew after a calm."""

from __future__ import annotations

from beatshard.aside import FIRST_PAUSE, LONGEST_PAUSE, Aside


def test_all_of_it_at_once_in_its_order() -> None:
    aside: Aside[int] = Aside()
    for item in (1, 2, 3):
        aside.add(item, 100.0)
    assert aside.due(100.0 + FIRST_PAUSE / 2) == []
    assert aside.due(100.0 + FIRST_PAUSE) == [1, 2, 3]
    assert (aside.due(200.0), len(aside)) == ([], 0)


def test_the_pauses_grow_while_it_is_refused_and_begin_anew() -> None:
    aside: Aside[int] = Aside()
    now, pauses = 0.0, []
    for _ in range(10):
        aside.add(1, now)
        began = now
        while not aside.due(now):
            now += 0.01
        pauses.append(round(now - began, 1))
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == LONGEST_PAUSE
    now += 3 * LONGEST_PAUSE
    aside.add(1, now)
    assert aside.due(now + FIRST_PAUSE) == [1]
