"""The files that the guards look at, and what they have in common."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Import package → the folder it lies in, as in pyproject.toml.
PACKAGES = {
    "tocsin": ROOT / "platform" / "tocsin",
    "beatshard": ROOT / "beatshard" / "beatshard",
    "tocsin_tasks": ROOT / "tasks" / "tocsin_tasks",
    "tocsin_api": ROOT / "api" / "tocsin_api",
    "tocsin_cli": ROOT / "cli" / "tocsin_cli",
}


def modules(package: str) -> Iterator[tuple[Path, str]]:
    """Each module of a package with its source."""
    for path in sorted(PACKAGES[package].rglob("*.py")):
        yield path, path.read_text()


def all_modules() -> Iterator[tuple[Path, str]]:
    """Each module of the five packages with its source."""
    for package in PACKAGES:
        yield from modules(package)


def tracked(*patterns: str) -> list[Path]:
    """The files of the repository; all visible files when this is no git checkout (a source archive)."""
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    found = [path for pattern in patterns or ("*",) for path in ROOT.rglob(pattern) if path.is_file()]
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]


def shown(path: Path) -> str:
    """The path as people write it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def imports(source: str) -> Iterator[tuple[int, str]]:
    """The line and the full name of everything that a module imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of attributes, empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}" if dotted(value) else ""
        case _:
            return ""
