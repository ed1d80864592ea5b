"""Private ZooKeeper servers on the loopback interface: one alone, or an ensemble of three.

Protocol: each server is a Java process of its own with its own ports, directories and log on stdout; a start
waits for the line that says that it serves. tickTime is 500 ms, so that sessions of 1 s and more are granted.
Data stays over `kill` and `start` until the directory is removed. The system's own configuration is not read.

Weakness: the ports are chosen before they are bound.
"""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import Process
from support.rabbitmq import MissingServiceError
from tocsin.embedded.supervised import free_port

_JARS = (Path("/usr/share/java/zookeeper.jar"), Path("/usr/share/java/slf4j-simple.jar"))
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JAVA = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_LOGGING = "-Dorg.slf4j.simpleLogger.logFile=System.out"
_ALONE = r"ZKAuditProvider"
_IN_ENSEMBLE = r"Peer state changed: (leading|following) - broadcast"
_START_SECONDS = 60.0
_SETTINGS = """
tickTime=500
initLimit=20
syncLimit=4
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,mntr
"""


class ZooKeeperServer:
    """One server; `members` are the lines of an ensemble's configuration."""

    def __init__(
        self, directory: Path, *, number: int = 1, members: str = "", port: int | None = None
    ) -> None:
        if shutil.which("java") is None or not all(jar.exists() for jar in _JARS):
            raise MissingServiceError("ZooKeeper is not installed; run: make services")
        self.directory = directory
        self.number = number
        self.port = port or free_port()
        self._ready = _IN_ENSEMBLE if members else _ALONE
        self._process: Process | None = None
        directory.mkdir(parents=True, exist_ok=True)
        place = f"dataDir={directory / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
        (directory / "zoo.cfg").write_text(_SETTINGS + place + members)
        (directory / "data").mkdir(exist_ok=True)
        (directory / "data" / "myid").write_text(str(number))

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> Process:
        """The running server, for signals and output."""
        assert self._process is not None, "the server is not started"
        return self._process

    def launch(self) -> None:
        """Start the server without waiting for it."""
        path = ":".join(str(jar) for jar in _JARS)
        command = ["java", *_JAVA, _LOGGING, "-cp", path, _MAIN, str(self.directory / "zoo.cfg")]
        self._process = Process(command, cwd=self.directory, name=f"zookeeper-{self.number}")

    def wait_ready(self) -> None:
        """Wait until it serves."""
        self.process.wait_for_line(self._ready, timeout=_START_SECONDS)

    def start(self) -> Self:
        """Start the server and wait until it serves."""
        self.launch()
        self.wait_ready()
        return self

    def kill(self) -> None:
        """SIGKILL; `start` brings it back with what it had written."""
        self.process.kill()

    def stop(self) -> None:
        """End it, whatever its state."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def ask(self, word: str) -> str:
        """The answer to `srvr` or `mntr`; empty when the server does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
        except OSError:
            return ""

    def received(self) -> int:
        """Packets that the server has had from its clients since its start."""
        match = re.search(r"zk_packets_received\s+(\d+)", self.ask("mntr"))
        assert match is not None, "the server does not tell"
        return int(match[1])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Ensemble:
    """Three servers; as a context manager they are started together and ended together."""

    def __init__(self, directory: Path) -> None:
        lines = "".join(f"server.{n}=127.0.0.1:{free_port()}:{free_port()}\n" for n in (1, 2, 3))
        self.servers = [ZooKeeperServer(directory / str(n), number=n, members=lines) for n in (1, 2, 3)]

    @property
    def address(self) -> str:
        """All servers, for clients."""
        return ",".join(server.address for server in self.servers)

    def leader(self) -> ZooKeeperServer:
        """The server that leads now."""
        return next(server for server in self.servers if "Mode: leader" in server.ask("srvr"))

    def start(self) -> Self:
        """Start all servers and wait until all serve."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()
        return self

    def stop(self) -> None:
        """End all servers."""
        for server in self.servers:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
