"""Fixtures: the recorded API, the command line in this process, golden files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tocsin_cli.main import run

from .api_stub import ApiStub

GOLDEN = Path(__file__).with_name("golden")


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def api() -> Iterator[ApiStub]:
    """A recorded API."""
    with ApiStub() as stub:
        yield stub


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs one command line in this process; `api=` names its server."""

    def call(*arguments: str, api: ApiStub | None = None) -> Result:
        capsys.readouterr()
        code = run([*arguments, *(["--server", api.url] if api else [])])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with a file in golden/; UPDATE_GOLDEN=1 writes it instead."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text(), f"{path.name} differs; UPDATE_GOLDEN=1 accepts it"

    return check
