"""The image of a task: looked up on the engine, and pulled as the task says.

A pull is told from a missing image: what the registry does not have or does not give (`MissingImageError`) is not
tried again, what failed on the way (`PullError`) is. Runs that want the same image wait for one pull, and PULLS are
under way at once, so that pulling never takes all threads of the engine. Credentials are those of the worker's own
Docker configuration.

Weakness: registries word their refusals as they like; one that is not recognised counts as failed on the way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.errors import APIError, ImageNotFound
from pydantic_core import PydanticCustomError

from tocsin.errors import TocsinError
from tocsin.model.docker_task import DockerTask, container_path
from tocsin.model.image import Image, parse_image
from tocsin_tasks.containers.engine import Engine, RefusedError

PULLS = 2
WORDS = 300  # characters of the engine's words that are passed on
_NOT_THERE = ("manifest unknown", "not found", "does not exist", "repository name not known", "name unknown")
_NOT_GIVEN = ("denied", "unauthorized", "authentication required", "no basic auth")


class MissingImageError(TocsinError):
    """There is no such image, or nobody here may pull it."""

    code = "image_missing"


class PullError(TocsinError):
    """The pull failed on the way."""

    code = "image_pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An image on the engine; `volumes` are the paths that it declares as volumes."""

    id: str
    volumes: dict[str, Any]


class Images:
    """Used on the executor's loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pulls = asyncio.Semaphore(PULLS)
        self._locks: dict[str, tuple[asyncio.Lock, list[object]]] = {}

    async def get(self, task: DockerTask) -> Found:
        """The image, pulled if need be. Raises MissingImageError, PullError, RefusedError, EngineDownError."""
        image = parse_image(task.image)
        if image is None:
            raise MissingImageError(f"{task.image} is no name of an image")
        if task.pull != "always" and (found := await self._look(image)):
            return found
        if task.pull == "never":
            raise MissingImageError(f"the image {task.image} is not on the engine, and pull is never")
        lock, waiting = self._locks.setdefault(image.reference, (asyncio.Lock(), []))
        waiting.append(task)
        try:
            async with lock:
                if task.pull == "missing" and (found := await self._look(image)):
                    return found
                async with self._pulls:
                    await self._engine.call(lambda client: _pull(client, image))
        finally:
            waiting.remove(task)
            if not waiting:
                self._locks.pop(image.reference, None)
        if found := await self._look(image):
            return found
        raise PullError(f"the image {task.image} was pulled and is not there")

    async def _look(self, image: Image) -> Found | None:
        return await self._engine.call(lambda client: _inspect(client, image))


def _inspect(client: APIClient, image: Image) -> Found | None:
    try:
        found = client.inspect_image(image.reference)
    except ImageNotFound:
        return None
    declared = ((found.get("Config") or {}).get("Volumes")) or {}
    try:
        volumes: dict[str, Any] = {container_path(path): {} for path in declared}
    except PydanticCustomError:
        raise RefusedError(400, "the image declares a volume at a path that cannot be replaced") from None
    return Found(id=found["Id"], volumes=volumes)


def _pull(client: APIClient, image: Image) -> None:
    words = ""
    try:
        for line in client.pull(image.repository, tag=image.version, stream=True, decode=True):
            words = str(line.get("error") or words)
    except APIError as error:
        words = str(error.explanation or error)
    if not words:
        return
    told = f"the image {image.reference} cannot be pulled: {words.strip()[:WORDS]}"
    if any(mark in words.lower() for mark in (*_NOT_THERE, *_NOT_GIVEN)):
        raise MissingImageError(told)
    raise PullError(told)
