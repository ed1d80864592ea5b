"""The process wrapper and the session's leftover check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import Process
from support.reaper import wait_for_end
from support.session import Session

_TESTS = Path(__file__).parents[1]
_ECHO = "import sys\nprint('out 1', flush=True)\nprint('err 2', file=sys.stderr, flush=True)\n"
_PAUSE = _ECHO + "import signal\nsignal.pause()\n"
_WITH_CHILD = """
import subprocess, signal
child = subprocess.Popen(['sleep', '600'])
print(child.pid, flush=True)
signal.pause()
"""


def _python(code: str) -> Process:
    return Process([sys.executable, "-c", code], name="child")


def test_lines_are_found_on_either_stream() -> None:
    with _python(_PAUSE) as child:
        assert child.wait_for_line(r"err (\d)")[1] == "2"
        assert child.wait_for_line(r"out (\d)", stream="stdout")[1] == "1"
        assert (child.text("stdout"), child.text("stderr")) == ("out 1", "err 2")


def test_a_missing_line_fails_with_the_output() -> None:
    with (
        _python(_ECHO) as child,
        pytest.raises(AssertionError, match=r"(?s)the process ended first.*o\| out 1"),
    ):
        child.wait_for_line("never")
    with _python(_PAUSE) as child:
        child.wait_for_line("err")
        with pytest.raises(AssertionError, match="not within"):
            child.wait_for_line("never", timeout=0.01)


def test_every_way_to_end() -> None:
    with _python(_PAUSE) as child:
        child.wait_for_line("err")
        assert child.terminate() == -signal.SIGTERM
    with _python(_PAUSE) as child:
        child.pause()
        state = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert state is not None
        assert state.si_status == signal.SIGSTOP
        child.resume()
        child.wait_for_line("err")
        child.pause()
    assert child.returncode == -signal.SIGTERM
    child = _python(_PAUSE)
    child.kill()
    assert child.returncode == -signal.SIGKILL


def test_children_end_with_the_group() -> None:
    with _python(_WITH_CHILD) as child:
        grandchild = int(child.wait_for_line(r"(\d+)")[1])
    assert wait_for_end([grandchild], 5) == []


def test_a_leftover_is_named_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.session._END_SECONDS", 0.5)
    monkeypatch.setenv("TOCSIN_TEST_SESSION", "")  # restored afterwards
    session = Session()
    session.begin()
    with subprocess.Popen(["sleep", "600"]) as left:
        [leftover] = session.end()
        assert (leftover.pid, leftover.command) == (left.pid, "sleep 600 ")
        assert left.wait(5) == -signal.SIGKILL
    assert session.end() == []


_INNER = """
import os, subprocess
def test_it(redis_url):
    child = subprocess.Popen(['sleep', '600'], start_new_session=True)
    print('started', child.pid, redis_url, flush=True)
    os.kill(os.getpid(), {signal})
    child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_pytest_that_ends_early(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((_TESTS / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_inner.py").write_text(_INNER.format(signal=int(number)))
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", str(tmp_path)]
    with Process(command, env={"PYTHONPATH": str(_TESTS)}, cwd=tmp_path, name="inner pytest") as inner:
        child = int(inner.wait_for_line(r"started (\d+)")[1])
        inner.wait(60)
        assert wait_for_end([child], 20) == []


_LEAVES_ONE = """
import subprocess
def test_it():
    subprocess.Popen(['sleep', '600'], start_new_session=True)
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_session_that_leaves_a_process_fails_and_names_it(workers: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((_TESTS / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_inner.py").write_text(_LEAVES_ONE)
    command = [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:cacheprovider", str(tmp_path)]
    with Process(command, env={"PYTHONPATH": str(_TESTS)}, cwd=tmp_path, name="inner pytest") as inner:
        assert inner.wait(60) == 1
        inner.wait_for_line(r"\d+ sleep 600")
