"""Loaded by every process of a chaos cluster that runs a mutant: breaks tocsin in the one way CHAOS_MUTANT names.

The product has no hook for this: the mutants replace parts of it from outside, and fail loudly when what they
replace is no longer there, so that a mutant cannot quietly become none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from types import ModuleType

SHARE = 100  # of the runs, one in so many is dropped; the workload has about a thousand
_TOCSIN = ("beatshard", "tocsin_tasks", "tocsin_cli")


def _replace(module: ModuleType, name: str, before: str, after: str) -> None:
    text = getattr(module, name)
    if before not in text:
        raise SystemExit(f"mutant: {module.__name__}.{name} has no {before!r}")
    setattr(module, name, text.replace(before, after))


def _known(module: ModuleType, name: str) -> None:
    if not hasattr(module, name):
        raise SystemExit(f"mutant: {module.__name__} has no {name}")


def drop_trigger() -> None:
    """One trigger in SHARE moves on without its run."""
    from tocsin.store import firing_sql

    lot = f"mod(abs(hashtext(job_id::text || fire::text)), {SHARE}) <> 0"
    before = "FROM ready WHERE fresh AND fire IS NOT NULL\n    ON CONFLICT DO NOTHING\n    RETURNING job_id"
    _replace(firing_sql, "FIRE", before, before.replace("fire IS NOT NULL", f"fire IS NOT NULL AND {lot}"))


def fire_early() -> None:
    """The clock that decides what is due is a second fast."""
    from tocsin.store import firing_sql, partitions

    _replace(partitions, "CHECK_EPOCHS", "clock_timestamp()", "clock_timestamp() + interval '1 s'")
    _replace(
        firing_sql,
        "LOOK_AHEAD",
        "(SELECT clock_timestamp())\n",
        "(SELECT clock_timestamp() + interval '1 s')\n",
    )


def old_epoch() -> None:
    """A node that has lost its partitions goes on: no check of the epoch, no fence of its own."""
    from beatshard import holdings
    from tocsin.store import partitions

    _replace(partitions, "CHECK_EPOCHS", " AND p.epoch = o.epoch", "")
    _replace(partitions, "SET_WATERMARKS", " AND p.epoch = o.epoch", "")
    seen: set[int] = set()
    cls = holdings.Holdings
    held, release = cls.held, cls.release

    def hold_on(self: holdings.Holdings) -> frozenset[int]:
        seen.update(held(self))
        return frozenset(seen)

    def let_go(self: holdings.Holdings, partitions: Collection[int]) -> None:
        seen.difference_update(partitions)
        release(self, partitions)

    cls.held, cls.release = hold_on, let_go  # type: ignore[method-assign]
    cls.surplus = lambda self: held(self) - self._view.wanted  # type: ignore[method-assign]


def no_republish() -> None:
    """A takeover does not look for what its predecessor had not confirmed."""
    from beatshard import ownership

    _known(ownership.partitions, "behind")
    ownership.partitions.behind = lambda conn, partitions: []


def run_twice() -> None:
    """Each run is inserted a second time, a microsecond later."""
    from tocsin.store import firing_sql

    before = "    SELECT partition_id, job_id, fire, 'queued'"
    twice = "    SELECT partition_id, job_id, fire + n * interval '1 us', 'queued'"
    _replace(firing_sql, "FIRE", before, twice)
    _replace(
        firing_sql,
        "FIRE",
        "FROM ready WHERE fresh AND fire IS NOT NULL\n    ON CONFLICT",
        "FROM ready CROSS JOIN generate_series(0, 1) n WHERE fresh AND fire IS NOT NULL\n    ON CONFLICT",
    )


def lose_retry() -> None:
    """A failed attempt gets no trigger for its retry."""
    from tocsin.store import leases_sql

    before = "FROM held, clock c WHERE status = 'scheduled'\n), output"
    _replace(leases_sql, "FINISH", before, before.replace("'scheduled'", "'never'"))


def let_overlap() -> None:
    """The overlap policy admits everything."""
    from tocsin.model.policy import Admission
    from tocsin.store import firing_limited

    _known(firing_limited, "admit")
    firing_limited.admit = lambda limit, active, waiting, candidates: [Admission.QUEUED for _ in candidates]


def ignore_version() -> None:
    """An edit leaves the old trigger where it is, and firing does not ask which version it is of."""
    from tocsin.store import firing_sql, job_edits

    _replace(
        firing_sql, "FIRE", "d.job_version = j.version AND NOT j.paused AND j.deleted_at IS NULL", "true"
    )
    _replace(firing_sql, "FIRE", "r.job_version < r.version OR ", "")
    honest = job_edits._next
    job_edits._next = lambda held, old, new: honest(held, old, new) if held.trigger is None else None
    _known(job_edits, "_remove_trigger")
    job_edits._remove_trigger = lambda conn, job: None


MUTANTS = {
    "drop-trigger": drop_trigger,
    "fire-early": fire_early,
    "old-epoch": old_epoch,
    "no-republish": no_republish,
    "run-twice": run_twice,
    "lose-retry": lose_retry,
    "let-overlap": let_overlap,
    "ignore-version": ignore_version,
}

_name = os.environ.get("CHAOS_MUTANT", "")
if _name and any(name in " ".join(sys.orig_argv) for name in _TOCSIN):
    MUTANTS[_name]()
