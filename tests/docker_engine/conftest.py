"""One engine for all tests of this directory, and a platform whose workers use it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_e2e.platform import Platform
from support.docker import IMAGE, DockerEngine
from support.processes import Process
from support.rabbitmq import MissingServiceError


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    """A private Docker engine."""
    # Not pytest's directory: the path of a socket has to be short.
    place = Path(tempfile.mkdtemp(prefix="dk-"))
    try:
        made = DockerEngine(place)
    except MissingServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with made:
        yield made


@pytest.fixture
def platform(database_url: str, rabbitmq_vhost: str, engine: DockerEngine) -> Iterator[Platform]:
    """A platform with the engine's address for its workers; its containers are gone afterwards."""
    env = {"TOCSIN_DOCKER_URL": engine.url, "TOCSIN_DOCKER_CLEAN": "1", "TOCSIN_DOCKER_LOOK": "1"}
    with Platform(database_url, rabbitmq_vhost, **env) as made:
        yield made
    engine.remove_containers()


@pytest.fixture
def docker_job(platform: Platform) -> Callable[..., str]:
    """Makes a job of a shell script; its ID. Keywords that start with a small letter go to the container."""

    def make(name: str, script: str, *, job: dict[str, Any] | None = None, **container: Any) -> str:
        task = {"docker": {"image": IMAGE, "command": ["/bin/sh", "-c", script], **container}}
        answer = platform.client.post("/jobs", json={"name": name, "task": task, **(job or {})})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["jobId"])

    return make


@pytest.fixture
def worker(platform: Platform) -> Process:
    """One worker, with the node that sends its runs."""
    platform.node()
    return platform.worker()
