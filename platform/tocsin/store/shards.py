"""The shard map: partition → shard → engine.

A shard is a Postgres database that holds a range of partitions. Every row of a job lies in the shard of its
partition, so every transaction is local. The map covers each of the 1,024 partitions exactly once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import psycopg
from sqlalchemy import Engine, create_engine

from tocsin.ids import PARTITIONS

_RANGE = re.compile(r"(\d{1,4})-(\d{1,4})=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One database and its partitions `first` to `last`, both included."""

    first: int
    last: int
    url: str

    @property
    def name(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def dsn(self) -> str:
        """The address in the form of libpq."""
        return libpq_url(self.url)

    def partitions(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class ShardMap:
    """All shards, in the order of their partitions."""

    shards: tuple[Shard, ...]

    def shard_of(self, partition: int) -> Shard:
        """The shard that holds this partition."""
        for shard in self.shards:
            if shard.first <= partition <= shard.last:
                return shard
        raise ValueError(f"partition {partition} is not between 0 and {PARTITIONS - 1}")

    def group(self, partitions: Iterable[int]) -> dict[Shard, list[int]]:
        """The given partitions by shard; shards without any are left out."""
        groups: dict[Shard, list[int]] = {}
        for partition in partitions:
            groups.setdefault(self.shard_of(partition), []).append(partition)
        return groups


def parse_shards(text: str) -> ShardMap:
    """One URL for all partitions, or `0-511=URL,512-1023=URL`.

    Raises ValueError when the ranges leave a partition out, name one twice, or a URL is not for Postgres.
    """
    parts = [part.strip() for part in re.split(r",(?=\s*\d{1,4}-\d{1,4}=)", text) if part.strip()]
    shards = []
    for part in parts:
        match = _RANGE.fullmatch(part)
        first, last, url = (int(match[1]), int(match[2]), match[3]) if match else (0, PARTITIONS - 1, part)
        if not re.match(r"postgres(ql)?(\+psycopg)?://", url):
            raise ValueError("a shard's URL must begin with postgresql://")
        shards.append(Shard(first=first, last=last, url=url))
    shards.sort(key=lambda s: s.first)
    expected = 0
    for shard in shards:
        if shard.first != expected or shard.last < shard.first:
            raise ValueError(f"the shard ranges must cover 0-{PARTITIONS - 1} once; look at {shard.name}")
        expected = shard.last + 1
    if expected != PARTITIONS:
        raise ValueError(f"the shard ranges end at {expected - 1}; they must cover 0-{PARTITIONS - 1} once")
    return ShardMap(tuple(shards))


def libpq_url(url: str) -> str:
    """The same address for psycopg itself."""
    return re.sub(r"^postgres(ql)?(\+psycopg)?://", "postgresql://", url)


@cache
def engine_for(url: str) -> Engine:
    """The pooled engine of a database, one per process and address.

    No server-side prepared statements, so that PgBouncer's transaction mode serves too.
    """
    return create_engine(
        re.sub(r"^postgres(ql)?(\+psycopg)?://", "postgresql+psycopg://", url),
        pool_size=10,
        max_overflow=10,
        pool_timeout=5,
        pool_pre_ping=True,
        connect_args={"prepare_threshold": None, "connect_timeout": 5, "options": "-c timezone=UTC"},
    )


def connect(url: str, *, autocommit: bool = True) -> psycopg.Connection[tuple[object, ...]]:
    """A connection of one's own, for the hot statements; the caller closes it."""
    return psycopg.connect(
        libpq_url(url),
        autocommit=autocommit,
        prepare_threshold=None,
        connect_timeout=5,
        options="-c timezone=UTC -c idle_in_transaction_session_timeout=60000",
        application_name="tocsin",
    )
