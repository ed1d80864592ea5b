"""Write data to stdout in the form that was asked for. Nothing else in the CLI writes to stdout.

JSON has the API's keys, unshortened. YAML of a job is the job file: it can be edited and applied again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tocsin_cli.options import Format
from tocsin_cli.views.tables import format_table

Item = dict[str, Any]
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def emit(
    items: Sequence[Item],
    output: Format,
    *,
    name: str,
    table: Callable[[Sequence[Item], bool], Table],
    single: bool = False,
    document: Callable[[Item], Item] = lambda item: item,
) -> None:
    """Write items; `name` is the key printed by `-o name`, `document` makes an item's YAML form."""
    match output:
        case Format.JSON:
            print(json.dumps(items[0] if single else list(items), ensure_ascii=False, indent=2))
        case Format.JSONL:
            for item in items:
                print(json.dumps(item, ensure_ascii=False, separators=(",", ":")))
        case Format.YAML:
            print(yaml_documents([document(item) for item in items]), end="")
        case Format.NAME:
            for item in items:
                print(item[name])
        case Format.TABLE | Format.WIDE:
            print(format_table(*table(items, output is Format.WIDE)))


def yaml_documents(documents: Sequence[Item]) -> str:
    """YAML, one document each; what YAML 1.1 or 1.2 could misread is quoted."""
    import yaml

    from tocsin_cli.files.yaml_strict import plain

    class Dumper(yaml.SafeDumper):
        """Quotes two sorts of text that PyYAML does not: with line separators of other alphabets, which it would turn
        into spaces, and with numbers of YAML 1.2 that are none in 1.1, such as 1e100."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        quoted = plain(value) != value or any(char in value for char in "\x85\u2028\u2029")
        style = '"' if quoted else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped = [
        yaml.dump(
            item, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False
        )
        for item in documents
    ]
    return "---\n".join(dumped)
