"""Private RabbitMQ nodes on the loopback interface, each with its own name, ports, directories, cookie and
epmd.

Protocol: `start()` runs the server in the foreground (the script replaces itself with the Erlang VM, so the
pid is the node's) and waits for the line that the node prints when its start is complete. epmd runs as a
child of its own on a private port, bound to loopback, and ends with the node: none is left behind and none
of the machine's is used. The system's own configuration and cookie are not read. Any user can run it, root
included. The nodes of a cluster share a cookie and an epmd; they find each other by a list of names.

Weakness: the ports are chosen before they are bound. Seen with RabbitMQ 3.10, once each: a quorum queue whose
node was killed right after the declaration and a confirmed publish answered 541 INTERNAL_ERROR after a minute
when the node was back; killed six seconds later it kept its message. The cause was not looked for. Declare quorum
queues before the load, not just before the kill.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import Process
from tocsin.embedded.supervised import free_port

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_SECONDS = 90.0
_CTL_SECONDS = 60.0


class MissingServiceError(Exception):
    """A system service that the tests need is not installed."""


class Epmd:
    """Erlang's port mapper for some nodes, on a port of its own, bound to loopback."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: Process | None = None

    def environment(self) -> dict[str, str]:
        """What nodes and tools need to find it."""
        return {"ERL_EPMD_PORT": str(self.port), "ERL_EPMD_ADDRESS": "127.0.0.1"}

    def start(self) -> None:
        """Start it unless it runs."""
        if self._process is None:
            command = ["epmd", "-port", str(self.port), "-address", "127.0.0.1"]
            self._process = Process(command, env=self.environment(), name="epmd")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop(timeout=30.0)
        self._process = None


class RabbitNode:
    """One node; its data stays over `stop`, `kill` and `start` until the directory is removed."""

    def __init__(
        self,
        directory: Path,
        *,
        config: Sequence[str] = (),
        advanced: str = "[].",
        cookie: str | None = None,
        epmd: Epmd | None = None,
    ) -> None:
        """`config` are lines of rabbitmq.conf, `advanced` is advanced.config; cluster nodes share the rest."""
        if not _SERVER.exists():
            raise MissingServiceError("RabbitMQ is not installed; run: make services")
        self.directory = directory
        self.config = list(config)
        self.name = f"tocsin-{secrets.token_hex(4)}@localhost"
        self.port = free_port()
        self._advanced = advanced
        self._cookie = cookie or secrets.token_hex(16)
        self._own_epmd = epmd is None
        self._epmd = epmd or Epmd()
        self._dist_port = free_port()
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """The URL of the default virtual host."""
        return self.url_of("/")

    def url_of(self, vhost: str) -> str:
        """The URL of a virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{vhost}"

    @property
    def process(self) -> Process:
        """The running node, for signals and output."""
        assert self._process is not None, "the node is not started"
        return self._process

    def start(self) -> Self:
        """Start the node and wait until it accepts connections."""
        self.launch()
        return self.wait()

    def wait(self) -> Self:
        """Wait until the node that was launched accepts connections."""
        self.process.wait_for_line("Server startup complete", timeout=_START_SECONDS)
        return self

    def launch(self) -> None:
        """Start the node and wait for nothing."""
        self._write_files()
        self._epmd.start()
        self._process = Process([_SERVER], env=self._environment(), cwd=self.directory, name=self.name)

    def stop(self) -> None:
        """Stop the node in an orderly way, then its epmd."""
        if self._process is not None:
            self._process.stop(timeout=30.0)
        self._process = None
        if self._own_epmd:
            self._epmd.stop()

    def kill(self) -> None:
        """SIGKILL the node; `start` brings it back with what it had written."""
        self.process.kill()

    def restart(self) -> None:
        """Stop in an orderly way and start again, same name, port and data."""
        self.process.terminate()
        self.start()

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl on this node; about a second a call."""
        result = subprocess.run(
            [_SERVER.with_name("rabbitmqctl"), "--quiet", "--node", self.name, *arguments],
            env={**os.environ, **self._environment()},
            capture_output=True,
            text=True,
            timeout=_CTL_SECONDS,
            check=False,
        )
        assert result.returncode == 0, f"rabbitmqctl {arguments}: {result.stdout}{result.stderr}"
        return result.stdout

    def add_vhost(self, name: str) -> str:
        """Make a virtual host that `guest` may use, in a few milliseconds, and return its URL."""
        rights = ", ".join(['<<".*">>'] * 3)
        user = f'<<"guest">>, <<"{name}">>, {rights}, <<"test">>'
        self._evaluate(f'rabbit_vhost:add(<<"{name}">>, <<"test">>)')
        self._evaluate(f"rabbit_auth_backend_internal:set_permissions({user})")
        return self.url_of(name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with its queues and connections."""
        self._evaluate(f'rabbit_vhost:delete(<<"{name}">>, <<"test">>)')

    def _evaluate(self, expression: str) -> None:
        """Evaluate Erlang in the node; much faster than rabbitmqctl, which starts a virtual machine.

        A busy machine may refuse the connection for a moment; nothing has been evaluated then.
        """
        deadline = time.monotonic() + _CTL_SECONDS
        while True:
            result = subprocess.run(
                ["erl_call", "-sname", self.name, "-c", self._cookie, "-e"],
                env={**os.environ, **self._environment()},
                input=f"{expression}.\n",
                capture_output=True,
                text=True,
                timeout=_CTL_SECONDS,
                check=False,
            )
            refused = "failed to connect" in result.stdout + result.stderr
            if not refused or time.monotonic() > deadline:
                break
        assert result.stdout.strip() == "{ok, ok}", f"{expression}: {result.stdout}{result.stderr}"

    def remove(self) -> None:
        """Stop the node and delete its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _write_files(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            "log.console = true",
            "log.console.level = info",
            "log.file = false",
            "disk_free_limit.absolute = 50MB",
            *self.config,
        ]
        (self.directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.directory / "enabled_plugins").write_text("[].\n")
        (self.directory / "env.conf").write_text("")
        (self.directory / "advanced.config").write_text(self._advanced + "\n")
        cookie = self.directory / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(self._cookie)
            cookie.chmod(0o400)

    def _environment(self) -> dict[str, str]:
        place = self.directory
        return {
            "HOME": str(place),
            **self._epmd.environment(),
            "RUNNING_UNDER_SYSTEMD": "true",  # makes the start script replace itself with the VM
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": str(place / "env.conf"),
            "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(place / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(place / "mnesia"),
            "RABBITMQ_LOG_BASE": str(place / "log"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(place / "generated"),
            "RABBITMQ_PID_FILE": str(place / "node.pid"),
        }


class RabbitCluster:
    """Several nodes that form one cluster; every queue of theirs has a member on each of the first three."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        self._epmd = Epmd()
        cookie = secrets.token_hex(16)
        self.nodes = [
            RabbitNode(directory / f"rabbit-{n}", cookie=cookie, epmd=self._epmd) for n in range(1, size + 1)
        ]
        finding = ["cluster_formation.peer_discovery_backend = classic_config"]
        finding += [
            f"cluster_formation.classic_config.nodes.{n} = {node.name}"
            for n, node in enumerate(self.nodes, start=1)
        ]
        for node in self.nodes:
            node.config += finding

    def node_at(self, text: str) -> RabbitNode:
        """The node whose port is named in the text, for instance in a line of a log."""
        (found,) = [node for node in self.nodes if f":{node.port}/" in text]
        return found

    def start(self) -> Self:
        """Start the nodes: the first founds the cluster, the others join."""
        first, *others = self.nodes
        first.start()
        for node in others:
            node.launch()
        for node in others:
            node.wait()
        return self

    def heal(self) -> None:
        """Bring every node back that was stopped, killed or paused."""
        for node in self.nodes:
            node.process.resume()
        down = [node for node in self.nodes if not node.process.running]
        for node in down:
            node.launch()
        for node in down:
            node.wait()

    def remove(self) -> None:
        """Stop the nodes and delete their data."""
        for node in self.nodes:
            node.remove()
        self._epmd.stop()

    def urls_of(self, vhost: str) -> str:
        """All nodes with this virtual host, as `TOCSIN_BROKER_URL` takes them."""
        return ";".join(node.url_of(vhost) for node in self.nodes)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
