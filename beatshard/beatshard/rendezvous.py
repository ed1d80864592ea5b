"""Rendezvous hashing: who should own each partition, a pure function of the live members.

Every member has a score for every partition; the highest score owns it. When a member joins it wins only the
partitions that it now scores highest on; when one leaves only its own are dealt out. No two nodes need to
talk: equal member lists give equal plans.

Weakness: shares are even in expectation only, about ± sqrt(share) partitions; all partitions weigh the same,
however many triggers they hold.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable
from functools import lru_cache

from tocsin.ids import PARTITIONS

_KEPT_MEMBERS = 128  # score lists in memory, 8 KiB of digest each


@lru_cache(maxsize=_KEPT_MEMBERS)
def scores(member: str) -> tuple[int, ...]:
    """The 64-bit score of a member for every partition, from one extendable hash."""
    digest = hashlib.shake_128(member.encode()).digest(8 * PARTITIONS)
    return struct.unpack(f"<{PARTITIONS}Q", digest)


def plan_ownership(members: Collection[str], partitions: Iterable[int]) -> dict[int, str]:
    """The member that should own each of these partitions; empty when there is no member."""
    if not members:
        return {}
    ranked = [(scores(member), member) for member in sorted(members)]
    # The name breaks a tie, so that every node breaks it the same way.
    return {p: max((score[p], name) for score, name in ranked)[1] for p in partitions}
