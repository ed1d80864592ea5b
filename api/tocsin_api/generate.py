"""`python -m tocsin_api.generate DOCS`: write openapi.json and the pages of problems into a docs folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tocsin_api.documentation import problem_page
from tocsin_api.openapi import document
from tocsin_api.problem_types import TYPES


def files() -> dict[str, str]:
    """What belongs into the docs folder, by path."""
    pages = {f"problems/{code}.md": problem_page(code) for code in TYPES}
    index = "".join(f"- [{t.code}]({t.code}.md) ({t.status}): {t.title}\n" for t in TYPES.values())
    head = "# Problems\n\nEvery error of the API is one of these. `code` is stable; the words may change.\n\n"
    return {
        "openapi.json": json.dumps(document(), indent=2, ensure_ascii=False) + "\n",
        "problems/README.md": head + index,
        **pages,
    }


def main(folder: str) -> int:
    """Write them all."""
    for name, text in files().items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "docs"))
