"""What a move is given, what it gives back, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.errors import TocsinError
from tocsin.store.connections import Connection, connect
from tocsin.store.shards import Shard

SETTLE = 10.0  # seconds before old rows are deleted: reads that began before the switch still need them
_SESSION = {"idle_in_transaction_session_timeout": "15min", "statement_timeout": "0"}


class MoveError(TocsinError):
    """The move cannot be made, or was given up; the partitions are where they were."""

    code = "shard_move"

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be moved, and how patiently. Durations in seconds."""

    source: Shard
    target: Shard
    first: int
    last: int
    lease: float = 10.0
    max_pause: float = 60.0
    settle: float = SETTLE

    @property
    def range(self) -> dict[str, int]:
        return {"first": self.first, "last": self.last}


@dataclass(slots=True, kw_only=True)
class Moved:
    """What was moved. `pause`: seconds in which the range could not be written."""

    rows: dict[str, int] = field(default_factory=dict)
    pause: float = 0.0
    deleted: int = 0


def open_direct(shard: Shard) -> Connection:
    """A connection for a move, whose session stays its own. Raises MoveError behind a pooler."""
    conn = connect(shard.direct, session=_SESSION)
    if conn.pooled:
        conn.close()
        raise MoveError(f"a pooler stands before shard {shard.name}", "set TOCSIN_DIRECT_URL")
    return conn
