"""The shard map as the settings write it, and the names that most of the code needs of shards.

A shard is a Postgres database that holds ranges of partitions. Every row of a job lies in the shard of its
partition, so every transaction is local. The map covers each of the 1,024 partitions exactly once. A database
that is written `spare=URL` holds none yet; partitions can be moved to it (`tocsin shard move`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from tocsin.ids import PARTITIONS
from tocsin.store.connections import connect, engine_for, libpq_url
from tocsin.store.shard_map import Shard, ShardMap

__all__ = ["Shard", "ShardMap", "connect", "engine_for", "libpq_url", "parse_shards"]

_PART = re.compile(r"(?:(\d{1,4})-(\d{1,4})|spare)=(.+)", re.DOTALL)
_COMMA = re.compile(r",(?=\s*(?:\d{1,4}-\d{1,4}|spare)=)")
_URL = re.compile(r"postgres(ql)?(\+psycopg)?://")


def parse_shards(text: str, direct: str | None = None) -> ShardMap:
    """One URL for all partitions, or `0-511=URL,512-1023=URL,spare=URL`; one URL may have several ranges.

    `direct` names the same databases in the same way, without a pooler in between. Raises ValueError when the
    ranges leave a partition out, name one twice, or a URL is not for Postgres.
    """
    shards = _parse(text)
    if not direct:
        return ShardMap(shards)
    others = _parse(direct)
    if [(s.name, s.ranges) for s in others] != [(s.name, s.ranges) for s in shards]:
        raise ValueError("the direct URLs must name the same ranges and spares as TOCSIN_DATABASE_URL")
    return ShardMap(replace(shard, direct_url=other.url) for shard, other in zip(shards, others, strict=True))


def _parse(text: str) -> list[Shard]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    for part in (part.strip() for part in _COMMA.split(text) if part.strip()):
        match = _PART.fullmatch(part)
        url = match[3] if match else part
        if not _URL.match(url):
            raise ValueError("a shard's URL must begin with postgresql://")
        mine = ranges.setdefault(url, [])
        if match is None:
            mine.append((0, PARTITIONS - 1))
        elif match[1] is not None:
            mine.append((int(match[1]), int(match[2])))
        elif mine:
            raise ValueError("a database with a range of partitions is no spare one")
    _check([span for spans in ranges.values() for span in spans])
    shards = [_shard(url, spans) for url, spans in ranges.items() if spans]
    shards.sort(key=lambda shard: shard.ranges)
    spares = [url for url, spans in ranges.items() if not spans]
    return shards + [
        Shard(name=f"spare-{number}" if number > 1 else "spare", url=url)
        for number, url in enumerate(spares, start=1)
    ]


def _shard(url: str, spans: list[tuple[int, int]]) -> Shard:
    ranges = tuple(sorted(spans))
    return Shard(name=",".join(f"{first}-{last}" for first, last in ranges), url=url, ranges=ranges)


def _check(spans: list[tuple[int, int]]) -> None:
    expected = 0
    for first, last in sorted(spans):
        if first != expected or last < first:
            raise ValueError(f"the shard ranges must cover 0-{PARTITIONS - 1} once; look at {first}-{last}")
        expected = last + 1
    if expected != PARTITIONS:
        raise ValueError(f"the shard ranges end at {expected - 1}; they must cover 0-{PARTITIONS - 1} once")
