"""The sharded beat: partitions, fencing, firing, publishing, reaping.

`beatshard.Scheduler` is for `celery beat -S beatshard.Scheduler`; it is imported when it is asked for.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "Scheduler":
        from beatshard.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
