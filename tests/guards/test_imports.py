"""Imports point one way, and `platform/` does not shadow the standard library."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .sources import PACKAGES, ROOT, imports, modules, shown

# What each package may import of the five.
ALLOWED = {
    "tocsin": {"tocsin"},
    "beatshard": {"tocsin", "beatshard"},
    "tocsin_tasks": {"tocsin", "tocsin_tasks"},
    "tocsin_api": {"tocsin", "tocsin_api"},
    "tocsin_cli": set(PACKAGES),
}
# The core knows neither Celery nor an HTTP server nor a command line.
KEPT_OUT_OF_THE_CORE = {"celery", "kombu", "amqp", "starlette", "uvicorn", "typer"}
# Node and worker declare the same queues, and neither may import the other.
MAY_KNOW_THE_BROKER = {"platform/tocsin/topology.py": {"kombu", "amqp"}}


def wrong_imports(package: str, source: str) -> list[str]:
    """The imports that the package must not have, as `line: name`."""
    forbidden = set(PACKAGES) - ALLOWED[package]
    if package == "tocsin":
        forbidden |= KEPT_OUT_OF_THE_CORE
    return [f"{line}: {name}" for line, name in imports(source) if name.split(".")[0] in forbidden]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    found = [
        f"{shown(path)}:{wrong}"
        for path, text in modules(package)
        for wrong in wrong_imports(package, text)
        if wrong.split(": ")[1].split(".")[0] not in MAY_KNOW_THE_BROKER.get(shown(path), ())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("tocsin", "def f() -> None:\n    import celery.app"),
        ("tocsin", "from starlette.routing import Route"),
        ("tocsin", "import beatshard"),
        ("beatshard", "from tocsin_tasks import lease"),
        ("tocsin_tasks", "import beatshard.node"),
        ("tocsin_api", "import tocsin_cli"),
    ],
)
def test_the_guard_sees_a_wrong_import(package: str, source: str) -> None:
    assert len(wrong_imports(package, source)) == 1


def test_the_guard_lets_right_imports_pass() -> None:
    assert wrong_imports("tocsin_cli", "import beatshard, tocsin_api.app, typer") == []
    assert (
        wrong_imports("beatshard", "from tocsin.store import schema\nimport kombu\nfrom . import node") == []
    )


def _import_platform(directory: object) -> int:
    code = "import platform; platform.system()"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=str(directory), capture_output=True, check=False
    ).returncode


def test_platform_is_the_standard_library_s() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()
    assert not (ROOT / "platform.py").exists()
    assert _import_platform(ROOT) == 0


def test_the_guard_sees_a_shadowed_platform(tmp_path_factory: pytest.TempPathFactory) -> None:
    shadowed = tmp_path_factory.mktemp("shadowed")
    (shadowed / "platform").mkdir()
    assert _import_platform(shadowed) == 0
    (shadowed / "platform" / "__init__.py").touch()
    assert _import_platform(shadowed) != 0
