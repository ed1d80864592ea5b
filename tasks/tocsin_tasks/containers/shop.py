"""All that a worker with an engine has beside its attempts: the runner, the watch and the janitor."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tocsin.settings import Settings
from tocsin_tasks.attempts import Attempts
from tocsin_tasks.containers.engine import Engine
from tocsin_tasks.containers.janitor import Janitor
from tocsin_tasks.containers.runner import DockerRunner
from tocsin_tasks.containers.watch import Watch


class Shop:
    """Made and used on the executor's loop. `serve` comes before the loops start."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings, self._engine = settings, engine
        self._attempts: Attempts | None = None
        self._watch = Watch(engine, look=settings.docker_look, on_change=self._available)
        self.runner = DockerRunner(settings, engine, self._watch)

    def serve(self, attempts: Attempts) -> None:
        """Let no attempt begin here while the engine is away."""
        self._attempts = attempts

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """To run until the worker ends."""
        attempts = self._attempts
        assert attempts is not None
        janitor = Janitor(
            self._engine,
            self._settings.shards,
            held=lambda run: attempts.get(run) is not None,
            every=self._settings.docker_clean,
        )
        return [self._watch.watch_forever(), janitor.clean_forever()]

    def close(self) -> None:
        """End the engine's threads."""
        self._engine.close()

    def _available(self, available: bool) -> None:
        if self._attempts is not None:
            self._attempts.close(not available)
