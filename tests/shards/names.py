"""Names of jobs that lie in given partitions."""

from __future__ import annotations

import itertools

from tocsin.ids import partition_of_name


def in_shard(first: int, last: int, count: int, prefix: str = "job") -> list[str]:
    """`count` names whose partition is `first` to `last`."""
    names = (f"{prefix}-{n}" for n in itertools.count())
    fitting = (name for name in names if first <= partition_of_name("default", name) <= last)
    return list(itertools.islice(fitting, count))
