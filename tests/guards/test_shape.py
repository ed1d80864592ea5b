"""Modules and functions stay small, public modules say what they are, and only the clock reads the clock."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .sources import PACKAGES, all_modules, dotted, shown

MODULE_LINES = 250
FUNCTION_LINES = 50
CLOCK = PACKAGES["tocsin"] / "clock.py"
READS_THE_CLOCK = (
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "time.time",
    "time.time_ns",
)


def too_long(source: str) -> list[str]:
    """The module and the functions that are longer than they may be."""
    found = []
    lines = source.count("\n")
    if lines > MODULE_LINES:
        found.append(f"module of {lines} lines")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append(f"{node.lineno}: {node.name} of {length} lines")
    return found


def clock_readings(source: str) -> list[str]:
    """Where the wall clock is read, under whatever name the modules and functions were imported."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, dot, rest = dotted(node).partition(".")
            name = names.get(first, first) + dot + rest
            if name.endswith(READS_THE_CLOCK) and (name in READS_THE_CLOCK or name.startswith("datetime.")):
                found.append(f"{node.lineno}: {name}")
    return found


def has_no_docstring(path: Path, source: str) -> bool:
    """Whether a public module says nothing about itself."""
    private = path.stem.startswith("_") and path.stem != "__init__"
    return not private and not (ast.get_docstring(ast.parse(source)) or "").strip()


def test_modules_and_functions_stay_small() -> None:
    assert [f"{shown(path)}: {what}" for path, text in all_modules() for what in too_long(text)] == []


def test_only_the_clock_reads_the_clock() -> None:
    found = [
        f"{shown(path)}:{reading}"
        for path, text in all_modules()
        if path != CLOCK
        for reading in clock_readings(text)
    ]
    assert found == []


def test_every_public_module_has_a_docstring() -> None:
    assert [shown(path) for path, text in all_modules() if has_no_docstring(path, text)] == []


def test_the_guard_sees_what_is_too_long() -> None:
    assert too_long("x = 1\n" * 251) == ["module of 251 lines"]
    assert too_long("class A:\n    async def f(self):\n" + "        x = 1\n" * 50) == ["2: f of 51 lines"]
    assert too_long("def f():\n" + "    x = 1\n" * 49) == []


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime, UTC\nnow = datetime.now(UTC)",
        "import datetime\nnow = datetime.datetime.utcnow()",
        "import datetime as dt\nnow = dt.datetime.now()",
        "from datetime import date as day\nnow = day.today()",
        "import time\nread = time.time",
        "from time import time\nnow = time()",
        "from time import time_ns as ns\nnow = ns()",
    ],
)
def test_the_guard_sees_a_clock_being_read(source: str) -> None:
    assert len(clock_readings(source)) >= 1


def test_the_guard_lets_other_clocks_pass() -> None:
    assert (
        clock_readings("import time\nfrom tocsin.clock import now\na = time.monotonic() + now().hour") == []
    )


def test_the_guard_sees_a_missing_docstring() -> None:
    assert has_no_docstring(Path("public.py"), "x = 1")
    assert has_no_docstring(Path("__init__.py"), '"""  """')
    assert not has_no_docstring(Path("_private.py"), "x = 1")
    assert not has_no_docstring(Path("public.py"), '"""What it is."""')
