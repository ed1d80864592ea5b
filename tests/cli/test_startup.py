"""The start-up budget: help, usage errors and completion import nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "celery",
    "kombu",
    "sqlalchemy",
    "alembic",
    "psycopg",
    "rich",
    "pydantic",
    "httpx",
    "yaml",
    "starlette",
)
PROBE = """
import sys
from tocsin_cli.main import run
code = run(sys.argv[2:])
heavy = [name for name in sys.argv[1].split(",") if name in sys.modules]
print("heavy:", ",".join(heavy), "code:", code, file=sys.stderr)
"""


def probe(*arguments: str) -> str:
    command = [sys.executable, "-c", PROBE, ",".join(HEAVY), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return done.stderr.splitlines()[-1]


def test_help_imports_nothing_heavy() -> None:
    assert probe("--help") == "heavy:  code: 0"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--version"], 0), (["help", "exit-codes"], 0), (["nope"], 2), (["run", "list", "--help"], 0)]
    + [
        ([name, "--help"], 0)
        for name in ("job", "dev", "apply", "diff", "lint", "api", "beat", "worker", "db", "schedule")
    ]
    + [(["schedule", "explain", "@daily"], 0)],
)
def test_a_command_imports_what_it_needs(arguments: list[str], code: int) -> None:
    # Typer itself reads every argument through pydantic.
    assert probe(*arguments).replace("pydantic", "") == f"heavy:  code: {code}"


def test_a_call_of_the_api_needs_only_the_http_client() -> None:
    probed = probe("job", "pause", "x", "--server", "http://127.0.0.1:1")
    assert probed == "heavy: pydantic,httpx code: 6"
