"""However a dev server ends, nothing of it is left; what it was told to keep is kept."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from .dev_process import Dev


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_group_stops_everything(number: signal.Signals, tmp_path: Path) -> None:
    with Dev(tmp_path) as dev:
        assert dev.cli("job", "run", "hello", "--wait", "--timeout", "30s").code == 0
        before = dev.processes()
        assert len(before) >= 8
        dev.process.signal_group(number)
        assert dev.process.wait(30) == 0
        dev.assert_gone(before, 0)  # when it has ended everything has
    assert "stopped; runs: " in dev.process.text("stderr")
    assert "succeeded" in dev.process.text("stderr").splitlines()[-1]


def test_a_stop_during_the_start(tmp_path: Path) -> None:
    dev = Dev(tmp_path, arguments=("--verbose",)).launch()
    with dev.process:
        dev.process.wait_for_line("starting PostgreSQL")
        before = dev.processes()
        dev.process.signal_group(signal.SIGINT)
        assert dev.process.wait(30) == 0
        dev.assert_gone(before, 0)
    assert dev.process.text("stdout") == ""


def test_a_second_signal_kills(tmp_path: Path) -> None:
    with Dev(tmp_path) as dev:
        before = dev.processes()
        for pid in before:
            if pid != dev.process.pid and "tocsin_cli.dev.child" in _command(pid):
                os.kill(pid, signal.SIGSTOP)  # nothing drains any more
        dev.process.signal_group(signal.SIGINT)
        dev.process.wait_for_line("stopping; Ctrl-C again kills")
        dev.process.signal_group(signal.SIGINT)
        assert dev.process.wait(10) == 130
        dev.assert_gone(before)


def test_kill_9_leaves_nothing(tmp_path: Path) -> None:
    with Dev(tmp_path) as dev:
        before = dev.processes()
        os.kill(dev.process.pid, signal.SIGKILL)
        assert dev.process.wait() == -signal.SIGKILL
        dev.assert_gone(before)


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    with Dev(tmp_path) as dev:
        (worker,) = [pid for pid in dev.processes() if _command(pid).endswith("dev.child worker")]
        os.kill(worker, signal.SIGKILL)
        dev.process.wait_for_line(r"worker ended \(exit code -9\); it starts again in 0.5 s", stream="stderr")
        assert dev.cli("job", "run", "hello", "--wait", "--timeout", "60s", timeout=90).code == 0
        (again,) = [pid for pid in dev.processes() if _command(pid).endswith("dev.child worker")]
        assert again != worker


def test_a_database_that_dies_ends_the_server(tmp_path: Path) -> None:
    with Dev(tmp_path) as dev:
        before = dev.processes()
        (postgres,) = [pid for pid in before if "/bin/postgres -D" in _command(pid)]
        os.kill(postgres, signal.SIGKILL)
        assert dev.process.wait(30) == 6
        dev.assert_gone(before)
    assert "error: postgres ended, and nothing works without it" in dev.process.text("stderr")


def test_a_taken_port_and_two_servers_at_once(dev: Dev, tmp_path: Path) -> None:
    with Dev(tmp_path, port=dev.port, arguments=("--no-sample", "--verbose")) as second:
        assert second.url != dev.url
        assert f"{dev.port} is taken" in second.process.text("stdout")
        canary = second.process.wait_for_line(r"canary (run_\w+) succeeded", stream="stderr", timeout=1.0)[1]
        assert second.json("run", "get", canary)["status"] == "succeeded"
        assert second.json("job", "list") == []
        assert dev.json("job", "get", "hello")["name"] == "hello"
        with socket.create_connection(("127.0.0.1", dev.port)):
            pass


def test_data_is_kept(tmp_path: Path) -> None:
    keep = ("--data", str(tmp_path / "kept"))
    tmp_path.chmod(0o755)
    with Dev(tmp_path, arguments=keep) as dev:
        assert f"kept in {tmp_path / 'kept'}" in dev.process.text("stdout")
        ran = dev.cli("job", "run", "hello", "--wait", "--timeout", "30s", "-o", "name").out.strip()
        assert dev.cli("job", "create", "mine", "--url", "http://127.0.0.1:9/").code == 0
        assert dev.cli("job", "pause", "flaky", "--reason", "noise").code == 0
        job_id = dev.json("job", "get", "hello")["jobId"]
        dev.process.signal_group(signal.SIGINT)
        assert dev.process.wait(30) == 0
    with Dev(tmp_path, arguments=keep) as dev:
        assert dev.json("job", "get", "hello")["jobId"] == job_id
        assert dev.json("run", "get", ran)["status"] == "succeeded"
        assert dev.json("job", "get", "mine")["name"] == "mine"
        assert dev.json("job", "get", "flaky")["pauseReason"] == "noise"
        second = Dev(tmp_path / "second", arguments=keep).launch()
        with second.process:
            assert second.process.wait(60) == 6
        assert "is in use by process" in second.process.text("stderr")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_only_loopback(host: str, tmp_path: Path) -> None:
    dev = Dev(tmp_path, arguments=("--host", host)).launch()
    with dev.process:
        assert dev.process.wait() == 2
    assert "is not a loopback address" in dev.process.text("stderr")
    assert "tocsin api" in dev.process.text("stderr").splitlines()[-1]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
