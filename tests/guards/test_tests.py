"""Tests never sleep to wait, and none is skipped or expected to fail without a reason."""

from __future__ import annotations

import ast

import pytest

from .sources import ROOT, dotted, imports, shown

SLEEPS = ("time.sleep", "asyncio.sleep", "anyio.sleep")
MARKS = ("skip", "skipif", "xfail")
# The receiver is a server whose answers are slow on purpose; no test waits by it.
SLOW_ON_PURPOSE = {"tests/support/receiver_server.py", "tests/support/relay.py"}


def sleeps(source: str) -> list[str]:
    """Where a test waits by the clock. `asyncio.sleep(0)` waits for nothing and passes."""
    found = [f"{line}: from time import sleep" for line, name in imports(source) if name == "time.sleep"]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio", "anyio"):
            found += [f"{node.lineno}: from {node.module}" for alias in node.names if alias.name == "sleep"]
        elif isinstance(node, ast.Call) and dotted(node.func) in SLEEPS:
            match node.args:
                case [ast.Constant(value=0)]:
                    pass
                case _:
                    found.append(f"{node.lineno}: {dotted(node.func)}")
    return found


def without_reason(source: str) -> list[str]:
    """Skips and expected failures that do not say why."""
    tree = ast.parse(source)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        name = dotted(node)
        if name not in {f"pytest.mark.{mark}" for mark in MARKS} | {"pytest.skip", "pytest.xfail"}:
            continue
        call = called.get(id(node))
        if call is None or not _has_reason(call, positional=not name.endswith("skipif")):
            found.append(f"{node.lineno}: {name}")
    return found


def _has_reason(call: ast.Call, *, positional: bool) -> bool:
    texts = [keyword.value for keyword in call.keywords if keyword.arg in ("reason", "msg")]
    texts += call.args[:1] if positional else []
    return any(not isinstance(text, ast.Constant) or str(text.value or "").strip() for text in texts)


def _sources() -> list[tuple[str, str]]:
    return [(shown(path), path.read_text()) for path in sorted((ROOT / "tests").rglob("*.py"))]


def test_no_test_sleeps() -> None:
    found = [
        f"{name}:{what}" for name, text in _sources() if name not in SLOW_ON_PURPOSE for what in sleeps(text)
    ]
    assert found == []


def test_no_test_is_left_out_without_a_reason() -> None:
    assert [f"{name}:{what}" for name, text in _sources() for what in without_reason(text)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(0.1)",
        "from time import sleep",
        "import asyncio\nasync def f():\n await asyncio.sleep(1)",
    ],
)
def test_the_guard_sees_a_sleep(source: str) -> None:
    assert len(sleeps(source)) == 1


def test_the_guard_lets_a_yield_to_the_loop_pass() -> None:
    assert sleeps("import asyncio\nasync def f():\n await asyncio.sleep(0)") == []


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.skip\ndef test(): ...",
        "@pytest.mark.skipif(True)\ndef test(): ...",
        "@pytest.mark.xfail(reason='')\ndef test(): ...",
        "def test():\n    pytest.skip()",
    ],
)
def test_the_guard_sees_a_missing_reason(source: str) -> None:
    assert len(without_reason("import pytest\n" + source)) == 1


def test_the_guard_lets_a_reason_pass() -> None:
    assert without_reason("import pytest\n@pytest.mark.skipif(True, reason='why')\ndef test(): ...") == []
