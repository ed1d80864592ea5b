"""Runs of the kind celery tracked to their end, with the team's own app and its own `celery worker`."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from platform_e2e.platform import Platform
from support.processes import Process

PROJECT = """
    import os, signal
    from celery import Celery
    import tocsin_tasks
    app = Celery("team", broker=os.environ["TEAM_BROKER"])
    app.conf.update(task_default_queue="team-work", broker_connection_retry_on_startup=True)
    {line}

    @app.task(name="team.ok")
    def ok():
        return 1

    @app.task(name="team.bad")
    def bad():
        raise LookupError("no such account")

    @app.task(name="team.again", bind=True, max_retries=3)
    def again(self):
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        print(f"retried {self.request.retries}", flush=True)

    @app.task(name="team.long")
    def long():
        print("long begun", flush=True)
        signal.pause()

    @app.task(name="team.dies")
    def dies():
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def team(place: Path, broker: str, line: str) -> Process:
    (place / "team.py").write_text(textwrap.dedent(PROJECT).replace("{line}", line))
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "team",
        "worker",
        "-l",
        "INFO",
        "-c",
        "1",
        "--without-mingle",
    ]
    return Process(command, env={"TEAM_BROKER": broker, "PYTHONUNBUFFERED": "1"}, name="team", cwd=place)


@pytest.fixture
def scene(platform: Platform) -> Platform:
    platform.node()
    platform.worker(TOCSIN_API_PUBLIC_URL=str(platform.client.base_url))
    return platform


def start(platform: Platform, task: str, **more: Any) -> str:
    name = task.replace(".", "-") + str(len(more))
    options = {"queue": "team-work", "completion": "callback", **more.pop("celery", {})}
    body = {"retryPolicy": {"maxAttempts": 1}, **more}
    platform.create(name, "http://unused.example/", task={"celery": {"name": task, **options}}, **body)
    return platform.trigger(f"name:{name}")


def test_the_end_of_the_task_is_the_end_of_the_run(
    scene: Platform, rabbitmq_vhost: str, tmp_path: Path
) -> None:
    with team(tmp_path, rabbitmq_vhost, "tocsin_tasks.track(app)") as worker:
        worker.wait_for_line("ready", timeout=60)
        runs = [start(scene, f"team.{name}") for name in ("ok", "bad", "again", "dies")]
        ended = [scene.wait_for_end(run) for run in runs]
        assert [run["status"] for run in ended] == ["succeeded", "failed", "succeeded", "failed"]
        assert [run["reason"] for run in ended] == [None, "reported", None, "reported"]
        assert ended[1]["error"] == "LookupError: no such account"
        assert "WorkerLostError" in ended[3]["error"]
        worker.wait_for_line("retried 2")
        long = start(scene, "team.long")
        worker.wait_for_line("long begun")
        assert scene.run(long)["status"] == "running"
        with Celery("client", broker=rabbitmq_vhost, set_as_current=False) as client:
            client.control.revoke(long, terminate=True)
            revoked = scene.wait_for_end(long)
        assert (revoked["status"], revoked["error"]) == ("failed", "the task was revoked")


def test_without_the_line_a_tracked_run_times_out_and_another_succeeds_at_the_broker(
    scene: Platform, rabbitmq_vhost: str, tmp_path: Path
) -> None:
    with team(tmp_path, rabbitmq_vhost, "") as worker:
        worker.wait_for_line("ready", timeout=60)
        silent = start(scene, "team.ok", timeout="2s")
        plain = start(scene, "team.bad", celery={"completion": "broker"})
        assert scene.wait_for_end(plain)["status"] == "succeeded"
        ended = scene.wait_for_end(silent)
        assert (ended["status"], ended["reason"]) == ("failed", "timeout")
