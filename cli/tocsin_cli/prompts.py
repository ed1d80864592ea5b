"""Questions. They are only asked when somebody can answer: stdin and stdout are both terminals."""

from __future__ import annotations

import sys

from tocsin_cli.failures import note, usage
from tocsin_cli.options import Format


def interactive() -> bool:
    """Whether a person reads the output and can type an answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, *, yes: bool, output: Format = Format.TABLE) -> bool:
    """Whether to go on. Without `--yes` and without a person, that is a usage error that names the flag."""
    if yes:
        return True
    if not interactive() or output in {Format.JSON, Format.JSONL, Format.YAML}:
        raise usage(f"{question} Nobody can answer here", "add --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    note("nothing was changed")
    return False
