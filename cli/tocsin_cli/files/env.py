"""`${env:NAME}` in the text values of a job file, the only templating there is.

A dollar sign is doubled to be meant literally: `$${env:X}` is the text `${env:X}`. Keys are never replaced,
and a value never becomes anything but text, so the environment cannot change the shape of a document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tocsin_cli.files.yaml_strict import Value, escape

_REFERENCE = re.compile(r"(\$+)\{(env|secret):([^}]*)\}")
Trouble = tuple[str, str, str]  # pointer, problem, fix


def substitute(
    value: Value, environment: Mapping[str, str], trouble: list[Trouble], pointer: str = "#"
) -> Value:
    """The value with its references replaced; what cannot be replaced is added to `trouble`."""
    if isinstance(value, dict):
        return {
            key: substitute(item, environment, trouble, f"{pointer}/{escape(key)}")
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [substitute(item, environment, trouble, f"{pointer}/{i}") for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        dollars, kind, name = match.groups()
        kept = "$" * (len(dollars) // 2)
        if len(dollars) % 2 == 0:
            return f"{kept}{{{kind}:{name}}}"
        if kind == "secret":
            trouble.append((pointer, "secrets are not known to this version", "use ${env:NAME}"))
        elif name not in environment:
            trouble.append(
                (pointer, f"the variable {name} is not set", f"set {name}, or write the value here")
            )
        return kept + environment.get(name, "")

    return _REFERENCE.sub(replaced, value)
