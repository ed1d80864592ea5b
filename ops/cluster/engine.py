"""The cluster's containers for `make cluster-test`: bring up, wait, break, look inside, tear down.

Protocol: everything goes through the `docker` command and Compose (the plugin when it is there, else the
command of 1.29), under a project name of its own, with published ports that were free a moment ago. `down`
removes containers, volumes and networks; `left` names what is left of them.

Weakness: the free ports are chosen before they are bound.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FILES = ("compose/docker-compose.yml", "compose/docker-compose.test.yml")
_PORTS = ("API_PORT", "FLOWER_PORT", "PROMETHEUS_PORT", "RABBITMQ_UI_PORT")
_LOOK_SECONDS = 1.0


class ClusterError(Exception):
    """The cluster did not do what it should; the text says what."""


def docker(*words: str, check: bool = True) -> str:
    """Run a docker command; its stdout. Raises ClusterError with its stderr."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise ClusterError(f"docker {' '.join(words[:3])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def compose_command() -> list[str]:
    """Compose 2 when the engine's command has it, else docker-compose."""
    found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if found.returncode == 0 else ["docker-compose"]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    """One cluster; a context manager that tears it down."""

    def __init__(self) -> None:
        self.project = f"tocsin-test-{os.getpid()}"
        self.ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self._environment = {
            **os.environ,
            **{name: str(port) for name, port in self.ports.items()},
            "TOCSIN_HTTP_ALLOW": "api,witness",
        }
        self._compose = [*compose_command(), "--project-name", self.project]
        for file in _FILES:
            self._compose += ["--file", str(ROOT / file)]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def api(self) -> str:
        """URL of the API."""
        return f"http://127.0.0.1:{self.ports['API_PORT']}"

    def compose(self, *words: str) -> str:
        """Run a Compose command; its stdout. Raises ClusterError."""
        done = subprocess.run(
            [*self._compose, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"compose {words[0]}: {done.stderr.strip()[-3000:]}")
        return done.stdout

    def up(self) -> None:
        """Start everything; Compose waits for what others depend on."""
        self.compose("up", "--detach", "--no-build")

    def states(self) -> dict[str, str]:
        """Each service's health, or its status where it has no health check."""
        ids = docker("ps", "--all", "--quiet", "--filter", self._label).split()
        if not ids:
            return {}
        found = {}
        for container in json.loads(docker("inspect", *ids)):
            state = container["State"]
            health = state.get("Health", {}).get("Status")
            exited = f"exited {state['ExitCode']}"
            service = container["Config"]["Labels"]["com.docker.compose.service"]
            found[service] = exited if state["Status"] == "exited" else (health or state["Status"])
        return found

    def wait_healthy(self, timeout: float) -> float:
        """Seconds until every service is healthy, or has ended with 0 as it should. Raises ClusterError."""
        return wait(timeout, lambda: not self.unwell(), lambda: f"not healthy: {self.unwell()}")

    def unwell(self) -> dict[str, str]:
        """The services that are neither healthy nor done."""
        states = self.states() or {"all": "missing"}
        return {name: state for name, state in states.items() if state not in ("healthy", "exited 0")}

    def container(self, service: str) -> str:
        """The ID of a service's container."""
        words = ("--filter", self._label, "--filter", f"label=com.docker.compose.service={service}")
        return docker("ps", "--all", "--quiet", *words).strip()

    def execute(self, service: str, *command: str) -> str:
        """Run a command in a service's container; its stdout."""
        return docker("exec", self.container(service), *command)

    def logs(self, service: str, lines: int = 40) -> str:
        """The last lines of a service's log."""
        done = subprocess.run(
            ["docker", "logs", "--tail", str(lines), self.container(service)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def down(self) -> None:
        """Remove containers, volumes and networks."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "10")

    def left(self) -> list[str]:
        """What of this cluster is still there."""
        found = [("ps", "--all"), ("volume", "ls"), ("network", "ls")]
        return [
            line for words in found for line in docker(*words, "--quiet", "--filter", self._label).split()
        ]

    @property
    def _label(self) -> str:
        return f"label=com.docker.compose.project={self.project}"


def wait(timeout: float, done: Callable[[], bool], complaint: Callable[[], str]) -> float:
    """Seconds until `done`; raises ClusterError with the complaint after `timeout` seconds."""
    begun = time.monotonic()
    while not done():
        if time.monotonic() - begun > timeout:
            raise ClusterError(f"after {timeout:.0f} s: {complaint()}")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - begun
