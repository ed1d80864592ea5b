"""Containers outlive their workers: killed ones are adopted or run again, a draining one hands over, none is doubled."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from platform_e2e.platform import Platform
from support.docker import DockerEngine

Make = Callable[..., str]
SCRIPT = "trap 'exit 0' TERM; n=0; while [ $n -lt {seconds} ]; do sleep 1; n=$((n+1)); done; echo done"
MANY = 20


def running(engine: DockerEngine) -> list[str]:
    """The runs whose containers run now; each once, if none is doubled."""
    return [item["Labels"]["tocsin.run"] for item in engine.containers(label="tocsin.run", status="running")]


def test_a_killed_worker_s_containers_are_adopted(
    platform: Platform, docker_job: Make, engine: DockerEngine
) -> None:
    platform.node()
    first = platform.worker()
    job = docker_job("adopt", SCRIPT.format(seconds=12), memory="8Mi")
    runs = [platform.trigger(job) for _ in range(MANY)]
    platform.wait(lambda: len(running(engine)) == MANY)
    containers = {item["Labels"]["tocsin.run"]: item["Id"] for item in engine.containers(label="tocsin.run")}
    os.kill(first.pid, signal.SIGKILL)
    second = platform.worker()
    second.wait_for_line("its container is adopted", skip=MANY - 1, timeout=60)
    assert max(Counter(running(engine)).values(), default=1) == 1
    left = {item["Labels"]["tocsin.run"]: item["Id"] for item in engine.containers(label="tocsin.run")}
    assert left.items() <= containers.items(), "a container was made anew though the old one was there"
    for run_id in runs:
        run = platform.wait_for_end(run_id)
        assert (run["status"], run["attempt"]) == ("succeeded", 2), run
        assert run["output"]["text"] == "done\n"
    platform.wait(lambda: not engine.containers(label="tocsin.run"))


def test_a_draining_worker_hands_its_containers_over(
    platform: Platform, docker_job: Make, engine: DockerEngine
) -> None:
    platform.node()
    first = platform.worker()
    run_id = platform.trigger(docker_job("over", SCRIPT.format(seconds=8)))
    platform.wait(lambda: running(engine))
    os.kill(first.pid, signal.SIGTERM)
    second = platform.worker()
    second.wait_for_line("its container is adopted", timeout=60)
    assert first.wait(30) == 0
    run = platform.wait_for_end(run_id)
    assert (run["status"], run["attempt"], run["output"]["text"]) == ("succeeded", 1, "done\n"), run


def test_the_janitor_removes_what_is_left(platform: Platform, docker_job: Make, engine: DockerEngine) -> None:
    """A run that is cancelled while no worker has it leaves a container, until there is a worker again."""
    platform.node()
    first = platform.worker()
    run_id = platform.trigger(docker_job("left", "sleep 600", job={"retryPolicy": {"maxAttempts": 1}}))
    platform.wait(lambda: running(engine))
    os.kill(first.pid, signal.SIGKILL)
    assert platform.wait_for_end(run_id)["reason"] == "lease_expired"
    assert running(engine) == [run_id]
    platform.worker()
    platform.wait(lambda: not engine.containers(label="tocsin.run"))


def test_many_containers_take_few_threads(platform: Platform, docker_job: Make, engine: DockerEngine) -> None:
    platform.node()
    worker = platform.worker()
    job = docker_job("many", SCRIPT.format(seconds=600), memory="8Mi", stopGrace="10s")
    runs = [platform.trigger(job) for _ in range(MANY)]
    platform.wait(lambda: len(running(engine)) == MANY)
    assert len(list(Path(f"/proc/{worker.pid}/task").iterdir())) < 40
    for run_id in runs:
        platform.client.post(f"/runs/{run_id}/cancel").raise_for_status()
    assert {platform.wait_for_end(run_id)["status"] for run_id in runs} == {"cancelled"}
