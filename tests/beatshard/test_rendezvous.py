"""The plan: least movement, even shares, and a zone that is lost is spread over the rest.

The figures are printed (`pytest -s`) as well as held to their limits. Names are fixed, so the figures are, too.
"""

from __future__ import annotations

from collections import Counter

import pytest

from beatshard.rendezvous import plan_ownership
from tocsin.ids import PARTITIONS

ALL = range(PARTITIONS)


def names(count: int, seed: int = 0) -> list[str]:
    return [f"host-{n}-{seed}" for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_join_moves_the_new_share_and_nothing_else(count: int) -> None:
    moves = []
    for seed in range(40):
        members = names(count + 1, seed)
        before, after = plan_ownership(members[:-1], ALL), plan_ownership(members, ALL)
        moved = {p for p in ALL if before[p] != after[p]}
        assert {after[p] for p in moved} == {members[-1]}, "nothing moves between those that were there"
        moves.append(len(moved))
    even = PARTITIONS / (count + 1)
    mean = sum(moves) / len(moves)
    print(f"{count} → {count + 1}: {mean:.1f} moved on average, the least possible {even:.1f}")
    assert mean <= 1.1 * even
    assert mean >= 0.9 * even, "the newcomer gets its share"


def test_a_member_that_leaves_moves_only_its_own() -> None:
    members = names(4)
    before, after = plan_ownership(members, ALL), plan_ownership(members[1:], ALL)
    assert all(after[p] == before[p] for p in ALL if before[p] != members[0])


def test_a_lost_zone_is_spread_evenly_over_the_other_zones() -> None:
    for seed in range(20):
        zone_of = {name: f"zone-{n % 3}" for n, name in enumerate(names(9, seed))}
        before = plan_ownership(zone_of, ALL)
        left = [name for name, zone in zone_of.items() if zone != "zone-0"]
        after = plan_ownership(left, ALL)
        orphans = [p for p in ALL if zone_of[before[p]] == "zone-0"]
        assert all(after[p] == before[p] for p in set(ALL) - set(orphans)), "the others keep theirs"
        zones = Counter(zone_of[after[p]] for p in orphans)
        heirs = Counter(after[p] for p in orphans)
        share = len(orphans) / 2
        assert set(zones) == {"zone-1", "zone-2"}
        assert max(zones.values()) < 1.25 * share, f"seed {seed}: {zones}"
        assert len(heirs) == 6, "every member that is left takes some"
        assert max(heirs.values()) < 1.8 * len(orphans) / 6, f"seed {seed}: {heirs}"


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_shares_are_even(count: int) -> None:
    worst = 0.0
    for seed in range(40):
        shares = Counter(plan_ownership(names(count, seed), ALL).values())
        worst = max(worst, max(shares.values()) / (PARTITIONS / count))
    print(f"{count} members: the largest share of 40 clusters is {worst:.2f} of an even one")
    assert worst < 1.45
