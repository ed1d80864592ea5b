"""What the dev server says: the banner, and its children's warnings and errors.

A child's line is shown when its level is WARNING or more, or with `--verbose`. A line without a level of its
own (a traceback's) belongs to the line before it. With `--log-format json` every line is one JSON object.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_LOUD = frozenset({"WARNING", "ERROR", "CRITICAL"})
_NAME_WIDTH = 7


@dataclass(slots=True)
class Console:
    """Writes to stdout (banner) and stderr (everything else)."""

    verbose: bool
    as_json: bool
    _levels: dict[str, str] = field(default_factory=dict)

    def forward(self, name: str, line: str) -> None:
        """A line of a child."""
        level = self._level(name, line)
        if line and (self.verbose or level in _LOUD):
            self.line(name, level, line)

    def line(self, name: str, level: str, text: str) -> None:
        """A line of the log."""
        if self.as_json:
            text = json.dumps({"component": name, "level": level, "message": text}, ensure_ascii=False)
            print(text, file=sys.stderr, flush=True)
        else:
            print(f"{name:<{_NAME_WIDTH}}| {text}", file=sys.stderr, flush=True)

    def step(self, text: str) -> None:
        """Something that only `--verbose` tells."""
        if self.verbose:
            self.line("dev", "INFO", text)

    def say(self, text: str) -> None:
        """Something that everybody should read."""
        self.line("dev", "INFO", text)

    def banner(self, banner: Banner) -> None:
        """The dev server is ready."""
        print(banner.as_json() if self.as_json else banner.text(), flush=True)

    def _level(self, name: str, line: str) -> str:
        found = _LEVEL.search(line[:80])
        if found:
            self._levels[name] = found[1]
        elif line.startswith("Traceback"):
            self._levels[name] = "ERROR"
        elif not line.startswith((" ", "\t")) and self._levels.get(name) != "ERROR":
            self._levels[name] = "INFO"
        return self._levels.get(name, "INFO")


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """What the dev server is and how to use it."""

    version: str
    seconds: float
    api: str
    target: str
    wanted_port: int
    port: int
    data: Path | None
    samples: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        data = (
            f"kept in {self.data}" if self.data else "temporary, removed on exit  →  keep it with --data DIR"
        )
        lines = [
            f"tocsin {self.version} dev · ready in {self.seconds:.1f} s",
            f"  API      {self.api}      Docs  /docs",
            f"  Target   {self.target}      what the sample jobs call",
            "  Running  PostgreSQL, broker, API, 1 beat node, 1 worker",
            f"  Data     {data}",
            "  Guard    HTTP jobs may call loopback and public addresses; TOCSIN_HTTP_ALLOW opens more",
        ]
        if self.port != self.wanted_port:
            lines.append(f"  Port     {self.wanted_port} is taken, so the API is on {self.port}")
        if self.samples:
            lines.append(f"  Jobs     {', '.join(self.samples)}")
        if self.port != 7420:
            lines.append(f"First export TOCSIN_API_URL={self.api}")
        job = (
            "tocsin job run hello --wait"
            if self.samples
            else f"tocsin job create hello --url {self.target}/hello"
        )
        lines += [f"Try   {job}      ·   tocsin job list", "Development only: no auth, loopback only."]
        return "\n".join(lines)

    def as_json(self) -> str:
        """For programs."""
        body = {
            "event": "ready",
            "version": self.version,
            "seconds": round(self.seconds, 3),
            "api": self.api,
            "target": self.target,
            "data": str(self.data) if self.data else None,
            "samples": list(self.samples),
        }
        return json.dumps(body)
