"""Tracked files name no path of the machine they were written on, and every relative link leads somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import unquote

from .sources import ROOT, shown, tracked

_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_BINARY_SUFFIXES = {".png", ".ico", ".woff2", ".gz", ".pdf"}
# Too general to be a trace: every machine has them.
_GENERAL = {"/", "/usr", "/usr/local", "/opt", "/home", "/tmp", "/var", "/srv", "/app", "/src"}


def machine_paths() -> set[str]:
    """The paths that would give this machine away: the checkout, its parent, the environment, the home."""
    home = Path.home().resolve()
    prefix = Path(sys.prefix).resolve()
    environment = set() if prefix.is_relative_to(ROOT) or sys.prefix == sys.base_prefix else {str(prefix)}
    beside = {f"{ROOT.parent}/"} if str(ROOT.parent) not in _GENERAL else set()
    return {str(ROOT), *beside, f"{home}/", *environment} - _GENERAL


def traces(text: str, paths: set[str]) -> list[str]:
    """The machine's paths that a text holds, as `line: path`; a longer word around the path is no trace."""
    found = []
    for path in sorted(paths):
        ending = "" if path.endswith("/") else r"(?![\w.-])"
        pattern = re.compile(rf"(?<![\w.~}}/-]){re.escape(path)}{ending}")
        found += [f"{text.count(chr(10), 0, match.start()) + 1}: {path}" for match in pattern.finditer(text)]
    return found


def dead_links(text: str, directory: Path) -> list[str]:
    """The relative links of a Markdown text that lead nowhere."""
    plain = _CODE.sub("", _FENCE.sub("", text))
    targets = [unquote(target.partition("#")[0]) for target in _LINK.findall(plain)]
    return [t for t in targets if t and not re.match(r"[a-z]+:|//", t) and not (directory / t).exists()]


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.suffix not in _BINARY_SUFFIXES else ""


def test_no_tracked_file_names_a_path_of_this_machine() -> None:
    paths = machine_paths()
    assert [f"{shown(path)}:{trace}" for path in tracked() for trace in traces(_read(path), paths)] == []


def test_every_relative_link_leads_somewhere() -> None:
    found = [
        f"{shown(path)}: {link}" for path in tracked("*.md") for link in dead_links(_read(path), path.parent)
    ]
    assert found == []


def test_the_guard_sees_a_path_of_the_machine() -> None:
    assert traces(f"first\nsee {ROOT}/README.md", machine_paths())[0].startswith("2: ")
    assert traces(f"cd '{Path.home()}/x'", {f"{Path.home()}/"}) != []
    assert traces("VENV=/some/env", {"/some/env"}) == ["1: /some/env"]
    assert traces("/some/environment $HOME/some/env /else/some/env", {"/some/env"}) == []


def test_the_guard_sees_a_dead_link(tmp_path: Path) -> None:
    (tmp_path / "there.md").touch()
    text = "[a](there.md#part) [b](missing.md) [c](https://example.org/x) [d](#here) `[e](code.md)`"
    assert dead_links(text, tmp_path) == ["missing.md"]
    assert dead_links("```\n[a](missing.md)\n```\n![b](<gone.png>)", tmp_path) == ["gone.png"]
