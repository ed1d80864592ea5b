"""The Docker engine: a few threads, each with a client of its own, for the worker's event loop.

`call` runs a function with the low-level client of the docker SDK in one of the threads. Every failure comes back
as one of two errors: the engine answered and refused (`RefusedError`), or it did not answer (`EngineDownError`).
A call takes ANSWER_SECONDS at most between two bytes. The threads are daemons: a call that hangs does not hold up
the end of the process.

Weakness: as many calls run at once as there are threads; pulls are kept to fewer by `images`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException

from tocsin.errors import InvalidError, Problem, TocsinError

logger = logging.getLogger(__name__)
T = TypeVar("T")
THREADS = 8
ANSWER_SECONDS = 60
FIRST_ANSWER_SECONDS = 10


class RefusedError(TocsinError):
    """The engine's own answer; `status` is HTTP's."""

    code = "engine_refused"

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class EngineDownError(TocsinError):
    """The engine does not answer."""

    code = "engine_down"


def new_client(url: str, seconds: float | None = ANSWER_SECONDS) -> APIClient:
    """A client that has asked for the API version; `seconds` bounds the wait for each answer. Raises `FAILURES`."""
    return APIClient(base_url=url, version="auto", timeout=seconds)


def failure_of(error: Exception) -> TocsinError:
    """What an exception of the SDK, of requests or of the socket means."""
    if isinstance(error, APIError):
        words = str(error.explanation or error).strip()
        return RefusedError(int(error.status_code or 500), words[:400])
    return EngineDownError(f"{type(error).__name__}: {error}"[:400])


FAILURES = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)


class Engine:
    """The threads; `identity` tells engines apart, the same for every worker on one engine."""

    def __init__(self, url: str, threads: int = THREADS) -> None:
        self.url = url
        self.identity = ""
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[APIClient], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._threads = threads
        self._started = False

    def open(self) -> None:
        """Ask the engine who it is, and start the threads. Raises InvalidError when it does not answer."""
        try:
            client = new_client(self.url, FIRST_ANSWER_SECONDS)
            name = str(client.info().get("ID") or "")
            client.close()
        except FAILURES as error:
            raise InvalidError(
                [
                    Problem(
                        pointer="TOCSIN_DOCKER_URL",
                        code="docker_engine",
                        detail=f"the engine at {self.url} does not answer: {failure_of(error)}",
                        fix="start the engine and give this process access to it, or unset TOCSIN_DOCKER_URL",
                    )
                ]
            ) from None
        self.identity = hashlib.sha256(name.encode()).hexdigest()[:8]
        for number in range(0 if self._started else self._threads):
            threading.Thread(target=self._serve, name=f"docker-{number}", daemon=True).start()
        self._started = True

    def close(self) -> None:
        """Let the threads end once they are idle."""
        for _ in range(self._threads):
            self._work.put(None)

    async def call(self, work: Callable[[APIClient], T]) -> T:
        """The function's result. Raises RefusedError, EngineDownError, and what the function raises itself."""
        future: Future[T] = Future()
        self._work.put((future, work))
        return await asyncio.wrap_future(future)

    def _serve(self) -> None:
        client: APIClient | None = None
        while (item := self._work.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                client = client or new_client(self.url)
                result = work(client)
            except FAILURES as error:
                failure = failure_of(error)
                if isinstance(failure, EngineDownError):
                    _drop(client)
                    client = None
                future.set_exception(failure)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        _drop(client)


def _drop(client: APIClient | None) -> None:
    if client is not None:
        client.close()
