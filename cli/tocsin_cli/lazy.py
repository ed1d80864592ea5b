"""A command group that knows its commands by name and help, and imports one only when it is called.

`tocsin --help` therefore costs the import of Typer and nothing else; a test holds that. The help texts live
in `tree.py` beside the module names; the modules' own help is what `tocsin job --help` shows.

Weakness: a command's name and its one-line help are written twice, here and in its module.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from tocsin_cli.tree import COMMANDS


class LazyGroup(TyperGroup):
    """The root group; `tree.COMMANDS` is its table of contents."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if cmd_name not in self.commands:
            command = get_command(import_module(entry.module).app)
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])
