"""Writes the page of settings: `python -m tocsin.settings_page > docs/settings.md`."""

from __future__ import annotations

import sys

from tocsin.settings import Settings

_HEAD = """# Settings

Every process reads these environment variables at start and refuses to start on a bad one, naming it.
Durations are in seconds. This page is made by `python -m tocsin.settings_page`.

| Variable | Default | Meaning |
|---|---|---|
"""


def render() -> str:
    """The page as Markdown."""
    rows = [
        f"| `TOCSIN_{name.upper()}` | {_shown(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def _shown(default: object) -> str:
    return f"`{default}`" if str(default) else "empty"


if __name__ == "__main__":
    sys.stdout.write(render())
