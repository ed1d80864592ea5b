"""How a container ended is told apart, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from platform_e2e.platform import Platform
from support.docker import IMAGE, DockerEngine
from support.processes import Process

ONCE = {"retryPolicy": {"maxAttempts": 1}}
Make = Callable[..., str]


def test_a_container_runs_and_its_output_is_kept(
    platform: Platform, worker: Process, docker_job: Make, engine: DockerEngine
) -> None:
    script = "echo out; echo err >&2; echo $TOCSIN_JOB $TOCSIN_ATTEMPT $GREETING; id -u; cat /proc/1/status | head -1"
    run = platform.wait_for_end(platform.trigger(docker_job("say", script, env={"GREETING": "hello"})))
    assert (run["status"], run["attempt"]) == ("succeeded", 1), run
    text = run["output"]["text"]
    assert {"out", "err", "say 1 hello", "65534"} <= set(text.splitlines())
    assert engine.containers(label="tocsin.run") == []


# script, container, job → reason, words of the error
FAILURES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, str]] = {
    "exit": ("exit 1", {}, {}, "exit_code", "exit code 1"),
    "exit-137": ("exit 137", {}, {}, "signal", "137"),
    "segv": ("kill -SEGV $$", {}, {}, "signal", "SIGSEGV"),
    "oom": ("head -c 100000000 /dev/zero | tail; exit 3", {"memory": "16Mi"}, {}, "out_of_memory", "memory"),
    "stubborn": ("trap '' TERM; sleep 60 & wait; sleep 60", {"stopGrace": "1s"}, {"timeout": "10s"}, "timeout", "137"),
    "timeout": ("sleep 60", {"stopGrace": "5s"}, {"timeout": "10s"}, "timeout", "timeout of 10 s and ended with exit code 143"),
    "image": ("true", {"image": "tocsin-test/nothing:1", "pull": "never"}, {}, "image_missing", "nothing"),
    "program": ("true", {"command": ["/bin/nothing"]}, {}, "exit_code", "127"),
    "read-only": ("echo x > /bin/x", {}, {}, "exit_code", "exit code 1"),
}  # fmt: skip


def test_failures_are_told_apart(
    platform: Platform, worker: Process, docker_job: Make, engine: DockerEngine
) -> None:
    started = {
        name: platform.trigger(docker_job(name, script, job={**ONCE, **job}, **container))
        for name, (script, container, job, _, _) in FAILURES.items()
    }
    for name, run_id in started.items():
        reason, words = FAILURES[name][3:]
        run = platform.wait_for_end(run_id)
        assert (name, run["status"], run["reason"]) == (name, "failed", reason), run
        assert words in run["error"], (name, run["error"])
    assert engine.containers(label="tocsin.run") == []


def test_a_cancel_stops_the_container(
    platform: Platform, worker: Process, docker_job: Make, engine: DockerEngine
) -> None:
    run_id = platform.trigger(docker_job("long", "sleep 600", stopGrace="1s"))
    platform.wait(lambda: engine.containers(label="tocsin.run", status="running"))
    platform.client.post(f"/runs/{run_id}/cancel").raise_for_status()
    assert platform.wait_for_end(run_id)["status"] == "cancelled"
    platform.wait(lambda: not engine.containers(label="tocsin.run"))


def test_what_a_container_is_given(
    platform: Platform, worker: Process, docker_job: Make, engine: DockerEngine
) -> None:
    run_id = platform.trigger(
        docker_job("long", "sleep 600", stopGrace="0s", memory="32Mi", cpus=0.5, pids=20)
    )
    (found,) = platform.wait(lambda: engine.containers(label="tocsin.run", status="running"))
    client = engine.client()
    seen = client.inspect_container(found["Id"])
    client.close()
    host = seen["HostConfig"]
    assert seen["Name"] == f"/tocsin-{run_id}"
    assert seen["Config"]["Labels"]["tocsin.run"] == run_id
    assert (host["Privileged"], host["CapDrop"], host["CapAdd"]) == (False, ["ALL"], None)
    assert "no-new-privileges" in host["SecurityOpt"]
    assert (host["ReadonlyRootfs"], host["NetworkMode"], host["PidsLimit"]) == (True, "none", 20)
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (32 << 20, 32 << 20, 500_000_000)
    assert (host["PidMode"], host["IpcMode"], host["Binds"], host["Devices"]) == ("", "private", None, None)
    assert seen["Config"]["User"] == "65534:65534"
    assert seen["Config"]["Image"].startswith("sha256:"), IMAGE
    platform.client.post(f"/runs/{run_id}/cancel").raise_for_status()
    platform.wait_for_end(run_id)
