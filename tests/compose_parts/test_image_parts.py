"""What the image adds to tocsin: the health check and the entry point, run for real without a container."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_PARTS = Path(__file__).resolve().parents[2] / "compose" / "tocsin"


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def _peers() -> set[int]:
    code = f"import sys; sys.path.insert(0, {str(_PARTS)!r}); import healthy; print(*healthy.peers({os.getpid()}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {int(port) for port in done.stdout.split()}


def test_only_established_connections_of_the_process_count(server: socket.socket) -> None:
    port = server.getsockname()[1]
    assert port not in _peers(), "a listening socket is no connection"
    with socket.create_connection(("127.0.0.1", port)):
        assert port in _peers()
    assert port not in _peers(), "a closed connection is none"


def test_a_connection_of_another_process_does_not_count(server: socket.socket) -> None:
    port = server.getsockname()[1]
    code = f"import socket; s = socket.create_connection(('127.0.0.1', {port})); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        assert port not in _peers()
        other.communicate(b"\n")


def _enter(**variables: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(_PARTS / "entrypoint.sh"), "env"]
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_setting_comes_from_its_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("amqp://u:p'$HOME`x`@h//;amqp://b//")
    lines = _enter(TOCSIN_BROKER_URL_FILE=str(secret), TOCSIN_ZONE="a b").stdout.splitlines()
    assert "TOCSIN_BROKER_URL=amqp://u:p'$HOME`x`@h//;amqp://b//" in lines
    assert "TOCSIN_ZONE=a b" in lines
    assert not [line for line in lines if "_FILE=" in line]


def test_a_file_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    done = _enter(TOCSIN_BROKER_URL_FILE=str(tmp_path / "none"))
    assert done.returncode == 7
    assert "TOCSIN_BROKER_URL_FILE: cannot read" in done.stderr
