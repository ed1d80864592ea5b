"""Specs: the few distinct (schedule, catch-up policy) pairs that jobs share.

A spec's number is a hash of its canonical text, so every shard knows it by the same number and two processes
that write it at once write the same row. The text is the schedule without its jitter, and the policy.

Weakness: specs are never removed; a job that changes its schedule every minute leaves one behind each time.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from tocsin import schedules
from tocsin.errors import TocsinError
from tocsin.model.job import CatchUpPolicy
from tocsin.store.schema import specs


class SpecCollisionError(TocsinError):
    """Two different specs have one number. With 64 bits this is not expected to be seen."""

    code = "internal"


def spec_of(schedule: schedules.Schedule, catch_up: CatchUpPolicy) -> dict[str, Any]:
    """The JSON of a spec, as the firing side reads it."""
    form = schedules.canonical(schedule)
    del form["jitterSec"]
    return {"schedule": form, "catchUp": catch_up.model_dump(mode="json")}


def spec_id_of(spec: dict[str, Any]) -> int:
    """The number of a spec: 64 bits, signed as Postgres has it."""
    text = json.dumps(spec, separators=(",", ":"), sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def put(conn: Connection, schedule: schedules.Schedule, catch_up: CatchUpPolicy) -> int:
    """Make sure that the spec's row is there; returns its number.

    Index: specs_pkey. Reads first, so that jobs of a known spec write nothing here and wait for nobody.
    """
    spec = spec_of(schedule, catch_up)
    spec_id = spec_id_of(spec)
    stored = _read(conn, spec_id)
    if stored is None:
        conn.execute(insert(specs).values(spec_id=spec_id, spec=spec).on_conflict_do_nothing())
        stored = _read(conn, spec_id)
    if stored != spec:
        raise SpecCollisionError(f"spec {spec_id} is {stored}, not {spec}")
    return spec_id


def _read(conn: Connection, spec_id: int) -> Any:
    return conn.execute(select(specs.c.spec).where(specs.c.spec_id == spec_id)).scalar_one_or_none()
