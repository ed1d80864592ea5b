"""A gate before each shard, so that one that does not answer holds up nobody who asks another.

A process has a few threads for all shards. After a failure to reach a shard, requests for it are refused at once
for REST seconds; then one is let through to try. Where MOST_SLOW requests already wait for longer than SLOW
seconds, more are refused as well: a host that went silent takes seconds to be noticed.

Weakness: the requests that are under way when a host goes silent hold their threads until TCP gives up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tocsin.clock import monotonic
from tocsin.errors import ShardUnavailableError

REST = 1.0  # seconds
SLOW = 1.0  # seconds
MOST_SLOW = 8  # requests; the API has 16 threads


class UnreachableError(ShardUnavailableError):
    """The shard did not answer; only this closes a gate."""


class Gate:
    """The gate of one database address; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed_until: float | None = None
        self._probe: object | None = None
        self._started: dict[object, float] = {}

    @contextmanager
    def passing(self, name: str) -> Iterator[None]:
        """Let a request through, or raise UnreachableError. `name` is the shard's, for the words."""
        token = object()
        self._enter(token, monotonic(), name)
        reached = True
        try:
            yield
        except UnreachableError:
            reached = False
            raise
        finally:
            self._leave(token, reached)

    def _enter(self, token: object, now: float, name: str) -> None:
        with self._lock:
            if self._closed_until is not None:
                if now < self._closed_until or self._probe is not None:
                    raise UnreachableError(f"shard {name} cannot be reached")
                self._probe = token
            elif sum(now - begun > SLOW for begun in self._started.values()) >= MOST_SLOW:
                raise UnreachableError(f"shard {name} does not answer: {MOST_SLOW} requests wait for it")
            self._started[token] = now

    def _leave(self, token: object, reached: bool) -> None:
        with self._lock:
            del self._started[token]
            if self._probe is token:
                self._probe = None
            self._closed_until = None if reached else monotonic() + REST


@cache
def gate_of(url: str) -> Gate:
    """The gate of this address, one per process."""
    return Gate()
