"""Knows when containers end: the engine's events on one connection, and a look at all of them now and then.

A thread reads the events of containers that carry our label and wakes whoever waits for them. Events can be missed
while the connection is down, so every `look` seconds, and after each reconnect, one list of all our containers is
compared with what is waited for. To be woken is a hint only: the waiter asks the engine how things are.

While the engine does not answer, `available` is False and `on_change` has been told so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tocsin import clock
from tocsin.errors import TocsinError
from tocsin_tasks.containers.engine import FAILURES, Engine, EngineDownError, RefusedError, new_client
from tocsin_tasks.containers.spec import LABEL_RUN

logger = logging.getLogger(__name__)
_OVER = ("exited", "dead", "removing")
RECONNECT_SECONDS = 0.5
MINE = {"label": LABEL_RUN}
EVENTS = {**MINE, "type": "container", "event": ["die", "destroy"]}


class Watch:
    """Used on the executor's loop, but for the thread of events."""

    def __init__(self, engine: Engine, *, look: float, on_change: Callable[[bool], None]) -> None:
        self._engine, self._look, self._on_change = engine, look, on_change
        self._waited: dict[str, tuple[asyncio.Event, float]] = {}
        self._soon = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = threading.Event()
        self._stream: Any = None
        self.available = True

    def expect(self, container: str) -> asyncio.Event:
        """An event that is set when the container may have ended; set it yourself to be sure to look once."""
        event, _ = self._waited.setdefault(container, (asyncio.Event(), clock.monotonic()))
        return event

    def forget(self, container: str) -> None:
        """Nobody waits for it any more."""
        self._waited.pop(container, None)

    async def watch_forever(self) -> None:
        """Read events and look now and then, until cancelled."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_events, name="docker-events", daemon=True).start()
        try:
            while True:
                await self.look()
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._soon.wait(), self._look if self.available else RECONNECT_SECONDS
                    )
                self._soon.clear()
        finally:
            self._closed.set()
            if self._stream is not None:
                self._stream.close()

    async def look(self) -> None:
        """Compare all our containers with those that are waited for."""
        sent = clock.monotonic()
        try:
            listed = await self._engine.call(lambda client: client.containers(all=True, filters=MINE))
        except EngineDownError as error:
            self._say(False, error)
            return
        except RefusedError as error:
            logger.error("the engine does not list its containers: %s", error)
            return
        self._say(True)
        states = {item["Id"]: item["State"] for item in listed}
        for container, (event, since) in self._waited.items():
            if since < sent and states.get(container, "removing") in _OVER:
                event.set()

    def _say(self, available: bool, error: TocsinError | None = None) -> None:
        if available != self.available:
            self.available = available
            logger.warning(
                "the engine answers again" if available else f"the engine does not answer: {error}"
            )
            self._on_change(available)

    def _read_events(self) -> None:
        while not self._closed.is_set():
            try:
                client = new_client(self._engine.url)
                self._stream = client.events(decode=True, filters=EVENTS)
                self._tell(self._soon.set)  # what ended before the connection was up
                for event in self._stream:
                    self._tell(self._ended, str(event.get("id") or ""))
            except (*FAILURES, ValueError) as error:
                logger.debug("no events from the engine: %r", error)
            self._tell(self._soon.set)
            self._closed.wait(RECONNECT_SECONDS)

    def _tell(self, callback: Callable[..., object], *args: str) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: the process ends
            self._loop.call_soon_threadsafe(callback, *args)

    def _ended(self, container: str) -> None:
        if container in self._waited:
            self._waited[container][0].set()
