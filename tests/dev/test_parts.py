"""The parts of the dev server that need no server: the banner, the log, the pauses, the ports, the target."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tocsin_cli.dev.console import Banner, Console
from tocsin_cli.dev.ports import first_free, loopback, url
from tocsin_cli.dev.restarts import Restarts
from tocsin_cli.dev.target import Target
from tocsin_cli.failures import Failure

GOLDEN = Path(__file__).with_name("golden")


def banner(**changes: object) -> Banner:
    base: dict[str, object] = {
        "version": "0.1.0",
        "seconds": 2.649,
        "api": "http://127.0.0.1:7420",
        "target": "http://127.0.0.1:17420",
        "wanted_port": 7420,
        "port": 7420,
        "data": None,
        "samples": ("dst-demo", "flaky", "hello"),
    }
    return Banner(**(base | changes))  # type: ignore[arg-type]


MOVED = {"api": "http://127.0.0.1:7421", "port": 7421, "data": Path("/data/tocsin"), "samples": ()}


@pytest.mark.parametrize(("name", "changes"), [("banner", {}), ("banner-moved", MOVED)])
def test_banner(name: str, changes: dict[str, object]) -> None:
    assert banner(**changes).text() + "\n" == (GOLDEN / f"{name}.txt").read_text()


def test_banner_for_programs() -> None:
    body = json.loads(banner().as_json())
    assert (body["event"], body["api"], body["seconds"]) == ("ready", "http://127.0.0.1:7420", 2.649)


LINES = [
    ("beat", "INFO beat: all is well", False),
    ("beat", "WARNING beat: late", True),
    ("beat", "a line that print() made", False),
    ("worker", "ERROR worker: no", True),
    ("worker", "Traceback (most recent call last):", True),
    ("worker", '  File "x.py", line 1', True),
    ("worker", "ValueError: 1", True),
    ("beat", "  indented after information", False),
    ("worker", "INFO worker: again", False),
    ("api", "Traceback (most recent call last):", True),
]


def test_only_warnings_and_errors_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(verbose=False, as_json=False)
    for name, line, _ in LINES:
        console.forward(name, line)
    shown = [line.partition("| ")[2] for line in capsys.readouterr().err.splitlines()]
    assert shown == [line for _, line, loud in LINES if loud]


def test_verbose_shows_everything_and_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(verbose=True, as_json=True)
    for name, line, _ in LINES:
        console.forward(name, line)
    shown = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(item["component"], item["message"]) for item in shown] == [(n, text) for n, text, _ in LINES]
    assert shown[6]["level"] == "ERROR"


def test_pauses_grow_and_end() -> None:
    restarts = Restarts()
    assert restarts.wait(0.0) is None
    assert [restarts.ended("beat", at) for at in (0.0, 1.0, 2.0, 3.0, 4.0)] == [0.5, 1.0, 2.0, 4.0, None]
    assert restarts.ended("worker", 4.0) == 0.5
    assert restarts.wait(4.0) == 0.5
    assert restarts.take_due(4.4) == []
    assert restarts.take_due(4.5) == ["worker"]


def test_crashes_long_ago_do_not_count() -> None:
    restarts = Restarts()
    assert [restarts.ended("beat", at) for at in (0.0, 100.0, 200.0, 300.0, 400.0, 500.0)] == [0.5] * 6


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1")],
)
def test_loopback(host: str, address: str) -> None:
    assert loopback(host) == address


def test_a_taken_port_gives_the_next() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert first_free("127.0.0.1", port) > port
    assert url("::1", 1) == "http://[::1]:1"


def test_no_port_is_a_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 65_535))
        taken.listen()
        with pytest.raises(Failure):
            first_free("127.0.0.1", 65_535)


@pytest.fixture
def call() -> Iterator[Callable[[str, str], httpx.Response]]:
    target = Target("127.0.0.1", 0)
    with httpx.Client(base_url=f"http://127.0.0.1:{target.port}", trust_env=False) as client:
        yield lambda path, key: client.post(path, headers={"idempotency-key": key}, content=b"x")
    target.stop()


def test_the_target_fails_twice_for_each_run(call: Callable[[str, str], httpx.Response]) -> None:
    assert [call("/flaky", "a").status_code for _ in range(4)] == [503, 503, 200, 200]
    assert call("/flaky", "b").status_code == 503


def test_the_target_answers(call: Callable[[str, str], httpx.Response]) -> None:
    assert [call(path, "a").status_code for path in ("/hello", "/dst?x=1", "/canary", "/")] == [
        200,
        200,
        200,
        404,
    ]
    assert call("/hello", "run_1").text == "hello from tocsin, run run_1\n"
