"""What node and worker agree on about the broker: the queues and their arguments, the names of the tasks.

Pure data; `topology.py` declares it. A queue belongs to a tier and a pool of workers:

    tocsin.[docker.]<tier>[.<pool>][.<slot>]

with `docker` for runs that only a worker with a container engine can execute: without one it leaves them alone;
without the pool for the pool `default`, without a slot unless a tier is spread over several queues. A run's
slot is its partition modulo the spread. Workers consume the queue without a slot whatever the spread, so that
nodes may have an older or a newer one; docs/architecture.md has the order in which to change it.

The arguments of a queue must be equal wherever it is declared, so they depend on nothing that is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tocsin.model.job import DEFAULT_POOL, POOL_PATTERN
from tocsin.model.status import Tier

# The queue of each tier for the default pool, not spread; the default exchange routes by the queue's name.
QUEUES: dict[Tier, str] = {tier: f"tocsin.{tier.value}" for tier in Tier}

# Exchange and queue for what no worker can read and for what was delivered too often.
DEAD = "tocsin.dead"
DEAD_MESSAGES = 100_000  # the oldest go first: these are for people to look at, nothing depends on them

# A worker gives messages back while it is saturated or a shard is down. RabbitMQ from 4.0 drops at 20 deliveries
# when nothing is said; a run whose message ends as a dead letter is published again by the sweep.
DELIVERIES = 1000

MAX_SPREAD = 64

# Kinds whose runs wait in queues of their own, because not every worker can execute them.
OWN_QUEUES = ("docker",)

# `tocsin.run.http` runs a job of kind `http`.
TASK_PREFIX = "tocsin.run."

_AMQP_SCHEMES = ("amqp", "amqps", "pyamqp")


def is_amqp(broker_url: str) -> bool:
    """Whether the broker speaks AMQP 0-9-1, which gives quorum queues and publisher confirms."""
    return broker_url.split("://", 1)[0] in _AMQP_SCHEMES


def queue_name(tier: str, pool: str = DEFAULT_POOL, slot: int | None = None, kind: str = "") -> str:
    """The queue of a tier and a pool; without a slot the one that is there whatever the spread."""
    parts = ["tocsin", *(own for own in OWN_QUEUES if own == kind), str(tier)]
    if pool != DEFAULT_POOL:
        parts.append(pool)
    if slot is not None:
        parts.append(str(slot))
    return ".".join(parts)


def parse_queue(name: str) -> tuple[str, str]:
    """The tier and the pool of a queue's name."""
    tier, *rest = name.removeprefix("tocsin.").removeprefix(f"{own_kind(name)}.").split(".")
    return tier, rest[0] if rest and not rest[0].isdigit() else DEFAULT_POOL


def own_kind(name: str) -> str:
    """The kind that a queue is for alone; empty for a queue of all the others."""
    return next((kind for kind in OWN_QUEUES if name.startswith(f"tocsin.{kind}.")), "")


def queue_for(tier: str, pool: str, partition: int, spread: int, kind: str = "") -> str:
    """Where a run's message goes."""
    return queue_name(tier, pool, partition % spread if spread > 1 else None, kind)


def consumed(
    tiers: Iterable[str], pools: Iterable[str], spread: int, kinds: Iterable[str] = ("",)
) -> list[str]:
    """The queues of a worker that serves these tiers and pools, and beside the usual kinds those in `kinds`."""
    slots = [None, *range(spread)] if spread > 1 else [None]
    tiers, pools = list(tiers), list(pools)
    return [
        queue_name(tier, pool, slot, kind)
        for kind in kinds
        for tier in tiers
        for pool in pools
        for slot in slots
    ]


def parse_pools(names: Iterable[str]) -> list[str]:
    """Each pool once. Raises ValueError for a name that no job can have, or when there is none."""
    pools = list(dict.fromkeys(name for text in names if (name := text.strip())))
    wrong = [name for name in pools if not re.fullmatch(POOL_PATTERN, name)]
    if wrong or not pools:
        what = f"{wrong[0][:40]!r} is no pool" if wrong else "no pool is given"
        raise ValueError(f"{what}: write small letters, digits and -, a letter first, at most 32 characters")
    return pools


def queue_arguments(broker_url: str) -> dict[str, str | int]:
    """The arguments with which every queue of runs is declared on this broker."""
    if not is_amqp(broker_url):
        return {}
    return {"x-queue-type": "quorum", "x-dead-letter-exchange": DEAD, "x-delivery-limit": DELIVERIES}


def dead_arguments() -> dict[str, str | int]:
    """The arguments of the queue of dead letters."""
    return {"x-queue-type": "quorum", "x-max-length": DEAD_MESSAGES}


def task_name(task_kind: str) -> str:
    """The Celery task that runs a job of this kind."""
    return TASK_PREFIX + task_kind
