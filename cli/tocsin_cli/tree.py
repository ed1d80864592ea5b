"""The table of contents of the CLI: command, module that holds it, one line of help. Imports nothing."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives and what it does."""

    module: str
    help: str


_ROOT = "tocsin_cli.commands"
COMMANDS: dict[str, Entry] = {
    "dev": Entry(f"{_ROOT}.dev", "Run everything on this machine, for development."),
    "apply": Entry(f"{_ROOT}.apply", "Make the server's jobs equal to the job files."),
    "diff": Entry(f"{_ROOT}.diff", "Show what apply would change."),
    "lint": Entry(f"{_ROOT}.lint", "Check job files, without a server."),
    "job": Entry(f"{_ROOT}.job", "Create, read, change, pause, run and delete jobs."),
    "run": Entry(f"{_ROOT}.run", "List, watch, retry and cancel runs."),
    "schedule": Entry(f"{_ROOT}.schedule", "Explain schedules, without a server."),
    "api": Entry(f"{_ROOT}.api", "Serve the API."),
    "beat": Entry(f"{_ROOT}.beat", "Run a beat node."),
    "worker": Entry(f"{_ROOT}.worker", "Run a worker."),
    "db": Entry(f"{_ROOT}.db", "Upgrade and check the databases."),
    "shard": Entry(f"{_ROOT}.shard", "List shards, and move partitions between them."),
    "help": Entry(f"{_ROOT}.help", "Topics: exit-codes."),
}
