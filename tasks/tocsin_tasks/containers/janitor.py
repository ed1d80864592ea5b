"""Removes containers that nobody is going to ask for: each worker, on its own engine, now and then.

A container stays while an attempt in this process has it, while its run waits for an attempt that may adopt it, and
while a worker on this engine has the run. It goes when its run is over, or when a worker on another engine has it.
A run that the database does not know is somebody else's business: another installation may share the engine.

Weakness: while a worker's host is cut off, its containers run on beside those of the attempts that replace them on
another engine, until a worker is back there. A container whose run waits for a worker is not held to its timeout
meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tocsin.errors import TocsinError
from tocsin.ids import RunKey
from tocsin.model.status import FINAL, RunStatus
from tocsin.store.run_states import RunState, states
from tocsin.store.shards import ShardMap
from tocsin_tasks.containers import ending, spec
from tocsin_tasks.containers.engine import Engine
from tocsin_tasks.containers.watch import MINE
from tocsin_tasks.link import Link

logger = logging.getLogger(__name__)


def owner_of(worker: str, engine: str) -> str:
    """The name under which a worker on this engine holds leases."""
    return f"{worker}.{engine}"


def is_left_over(state: RunState | None, engine: str) -> bool:
    """Whether a container on this engine has no future, by the state of its run."""
    if state is None:
        return False
    if state.status in FINAL:
        return True
    return state.status is RunStatus.RUNNING and not (state.owner or "").endswith(f".{engine}")


class Janitor:
    """Used on the executor's loop; `held` says which runs have an attempt in this process."""

    def __init__(
        self, engine: Engine, shards: ShardMap, *, held: Callable[[RunKey], bool], every: float
    ) -> None:
        self._engine, self._shards, self._held, self._every = engine, shards, held, every

    async def clean_forever(self) -> None:
        """Clean now and every so often, until cancelled."""
        while True:
            try:
                await self.clean()
            except TocsinError as error:
                logger.debug("no cleaning this time: %s", error)
            await asyncio.sleep(self._every)

    async def clean(self) -> int:
        """Remove what is left over; how many. Raises EngineDownError, RefusedError, ShardUnavailableError."""
        listed = await self._engine.call(lambda client: client.containers(all=True, filters=MINE))
        found = {run: item for item in listed if (run := _run_of(item)) is not None and not self._held(run)}
        gone = 0
        for run, state in (await self._states(found)).items():
            if is_left_over(state, self._engine.identity) and not self._held(run):
                container = found[run]["Id"]
                logger.info("%s is %s: its container is removed", run, state.status)
                await self._engine.call(partial(ending.remove, container=container, force=True))
                gone += 1
        return gone

    async def _states(self, found: Mapping[RunKey, Any]) -> dict[RunKey, RunState]:
        by_shard: dict[Any, list[RunKey]] = defaultdict(list)
        for run in found:
            by_shard[self._shards.shard_of(run.partition)].append(run)
        known: dict[RunKey, RunState] = {}
        for shard, runs in by_shard.items():
            link = Link(shard.dsn, shard.name)
            try:
                known |= await link.run(partial(states, keys=runs))
            finally:
                await link.close()
        return known


def _run_of(item: Mapping[str, Any]) -> RunKey | None:
    return spec.run_of(item.get("Labels") or {})
