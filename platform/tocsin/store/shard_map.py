"""Which database holds which partition: the settings' map, and the moves that were made since.

The databases say themselves what was moved (`shard_moves`, see `moves.py`): of all that was read about a
partition the highest generation counts, and without any the settings do. `learn` takes in what one database says;
it is called at start, every few seconds, and at once when a database refuses a partition as moved.

Thread-safe: what readers see is replaced as a whole. A partition that was moved to a database which this process
does not know stays where it was, and is refused there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from tocsin.ids import PARTITIONS
from tocsin.store.connections import libpq_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One database, and the ranges of partitions (both ends included) that the settings give it."""

    name: str
    url: str
    ranges: tuple[tuple[int, int], ...] = ()
    direct_url: str = ""  # the same database without a pooler in between

    @property
    def dsn(self) -> str:
        """The address in the form of libpq."""
        return libpq_url(self.url)

    @property
    def direct(self) -> str:
        """Where to go for what a pooler cannot do: LISTEN, session locks, migrations."""
        return self.direct_url or self.url

    def partitions(self) -> frozenset[int]:
        """What the settings give it."""
        return frozenset(p for first, last in self.ranges for p in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Place:
    """What a database says of one partition: `moved_to` is the identity of the database that has it instead."""

    generation: int
    moved_to: UUID | None
    moving: bool  # it is here, and refuses writes because it is being copied


@dataclass(frozen=True, slots=True)
class Report:
    """All that a database says about places."""

    identity: UUID
    places: Mapping[int, Place]

    @property
    def stamp(self) -> int:
        """Rises when a move from or to this database begins, and when it is made."""
        return sum(place.generation + 1 for place in self.places.values())


@dataclass(frozen=True, slots=True)
class _View:
    places: tuple[Shard, ...]
    generations: tuple[int, ...]
    held: Mapping[Shard, frozenset[int]]
    moving: frozenset[int]
    lost: frozenset[int]


class ShardMap:
    """All shards, in the order of their partitions, spares last. See the module."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self.shards = tuple(shards)
        self._lock = threading.Lock()
        self._reports: dict[Shard, Report] = {}
        self._watchers: list[Callable[[], None]] = []
        self._given = {p: shard for shard in self.shards for p in shard.partitions()}
        self._view = self._look()

    def shard_of(self, partition: int) -> Shard:
        """The shard that holds this partition."""
        if not 0 <= partition < PARTITIONS:
            raise ValueError(f"partition {partition} is not between 0 and {PARTITIONS - 1}")
        return self._view.places[partition]

    def partitions_of(self, shard: Shard) -> frozenset[int]:
        """The partitions that this shard holds."""
        return self._view.held[shard]

    def moving(self, partition: int) -> bool:
        """Whether the partition refused writes when its database was last asked."""
        return partition in self._view.moving

    @property
    def lost(self) -> frozenset[int]:
        """Partitions that were moved to a database which this process does not know, or has not asked yet."""
        return self._view.lost

    def group(self, partitions: Iterable[int]) -> dict[Shard, list[int]]:
        """The given partitions by shard; shards without any are left out."""
        groups: dict[Shard, list[int]] = {}
        for partition in partitions:
            groups.setdefault(self.shard_of(partition), []).append(partition)
        return groups

    def report_of(self, shard: Shard) -> Report | None:
        """What the shard said last; None when it was never asked."""
        return self._reports.get(shard)

    def generation_of(self, partition: int) -> int:
        """How often the partition was moved."""
        return self._view.generations[partition]

    def learn(self, shard: Shard, report: Report) -> dict[int, int]:
        """Take in what a shard says.

        Returns the partitions, with their generations, that it holds by another database's word and does not
        know of yet: see `places.open_arrived`.
        """
        with self._lock:
            before = self._view
            if self._reports.get(shard) != report:
                self._reports[shard] = report
                self._view = self._look()
            view = self._view
        if view.places != before.places:
            for changed in self._watchers:
                changed()
        return {
            p: view.generations[p]
            for p in view.held[shard]
            if view.generations[p] > (report.places[p].generation if p in report.places else 0)
        }

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, in whichever thread learns of it, when a partition is elsewhere than before."""
        self._watchers.append(changed)

    def _look(self) -> _View:
        best = {p: (0, shard) for p, shard in self._given.items()}
        named = Counter(report.identity for report in self._reports.values())
        by_identity = {r.identity: s for s, r in self._reports.items() if named[r.identity] == 1}
        unknown: dict[int, int] = {}
        for shard, report in self._reports.items():
            for p, place in report.places.items():
                where = shard if place.moved_to is None else by_identity.get(place.moved_to)
                if where is None:
                    unknown[p] = max(place.generation, unknown.get(p, 0))
                elif place.generation > best[p][0]:
                    best[p] = (place.generation, where)
        held: dict[Shard, set[int]] = {shard: set() for shard in self.shards}
        for p, (_, shard) in best.items():
            held[shard].add(p)
        return _View(
            places=tuple(best[p][1] for p in range(PARTITIONS)),
            generations=tuple(best[p][0] for p in range(PARTITIONS)),
            held={shard: frozenset(partitions) for shard, partitions in held.items()},
            moving=frozenset(
                p
                for shard, report in self._reports.items()
                for p, place in report.places.items()
                if place.moving and best[p][1] == shard
            ),
            lost=frozenset(p for p, generation in unknown.items() if generation > best[p][0]),
        )
