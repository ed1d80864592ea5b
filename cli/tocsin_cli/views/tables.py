"""Tables: no borders, a header in capitals, two spaces between columns, one line per row.

On a terminal the last column is cut with `…` where the line would wrap; in a pipe nothing is ever cut.
Control characters in what the server sent are shown as `?`, so that a name cannot move the cursor.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence

_GUTTER = "  "
_MOST_COLUMNS = 120


def width(text: str) -> int:
    """The cells that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def clean(text: str) -> str:
    """The text on one line and without control characters."""
    return "".join(char if char.isprintable() else "?" for char in text.replace("\n", " "))


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as text, without a line end."""
    cells = [list(header), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        _GUTTER.join(
            cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    if sys.stdout.isatty():
        limit = min(shutil.get_terminal_size().columns, _MOST_COLUMNS)
        lines = [_cut(line, limit) for line in lines]
    return "\n".join(lines)


def _cut(line: str, limit: int) -> str:
    if width(line) <= limit:
        return line
    while width(line) >= limit:
        line = line[:-1]
    return line + "…"
