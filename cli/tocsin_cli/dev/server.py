"""The dev server: everything of tocsin on one machine, one command, one Ctrl-C.

Start: the children import while the databases start; then migrations; then the children begin; then samples
and a canary run. The banner comes when the API answers /readyz, beat and worker have said that they are ready
and the canary has succeeded. Until then the end of any part ends the whole.

Afterwards a child that ends is told with its last lines and started again after a growing pause; one that
ends too often (`restarts.py`) ends the whole, and so does the end of a database. Stop (SIGINT or SIGTERM):
beat and worker first, with DRAIN_SECONDS for runs in progress, then API, databases, target. A second signal
kills the children at once; the databases then end by themselves: their supervisors watch this process.

Weakness: one node and one worker; what a second node changes is seen in the compose cluster only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tocsin.clock import monotonic
from tocsin.egress import LOOPBACK
from tocsin_cli.client import Client
from tocsin_cli.dev import counts
from tocsin_cli.dev.children import Child, Ended, Events, Said, Told
from tocsin_cli.dev.console import Banner, Console
from tocsin_cli.dev.ports import first_free, url
from tocsin_cli.dev.restarts import CRASH_WINDOW, CRASHES, Restarts
from tocsin_cli.dev.samples import apply_samples, remove_canary, start_canary
from tocsin_cli.dev.starting import canary_done, migrate, readyz
from tocsin_cli.dev.stores import Stores
from tocsin_cli.dev.target import Target
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure

DRAIN_SECONDS = 5.0
_READY_SECONDS = 60.0
_READY = {"api": r"(?!)", "beat": r"\bbeat ready\b", "worker": r"\bworker ready\b"}


class StopAskedError(Exception):
    """A signal came while the server was starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line."""

    host: str
    port: int
    data: Path | None
    sample: bool


class DevServer:
    """One dev server, from start to stop."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._events: Events = SimpleQueue()
        self._children: dict[str, Child] = {}
        self._target: Target | None = None
        self._stores = Stores(options.data)
        self._variables: dict[str, str] = {}
        self._restarts = Restarts()
        self._signals = 0
        self._begun = False

    def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            self._start()
            self._serve()
        except StopAskedError:
            return ExitCode.OK
        except Failure:
            if not self._signals:
                raise
            return ExitCode.OK  # the signal went to the group: what failed to start had been told to end, too
        finally:
            self._stop()
        return ExitCode.OK

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals == 1:
            self._events.put(Told(number))
            return
        for child in self._children.values():
            child.kill()
        os._exit(ExitCode.INTERRUPTED)

    def _start(self) -> None:
        begin = monotonic()
        options = self._options
        port = first_free(options.host, options.port)
        self._target = Target(options.host, first_free(options.host, min(port + 10_000, 60_000)))
        self._console.step("starting PostgreSQL and the broker")
        self._stores.start()
        for name, ready in _READY.items():
            self._children[name] = Child(name, ready, self._events)
        self._stores.wait(self._events)
        self._let_go()
        self._console.step("migrating")
        migrate(self._stores.postgres.url)
        api = url(options.host, port)
        self._variables = self._settings(api, port)
        for child in self._children.values():
            child.configure(self._variables)
        self._begun = True
        self._until(
            lambda: all(c.is_ready for n, c in self._children.items() if n != "api"), "beat and worker"
        )
        self._until(lambda: readyz(api), "the API")
        target = url(options.host, self._target.port)
        with Client(api, timeout=10.0) as client:
            samples = apply_samples(client, target) if options.sample else ()
            self._console.step("waiting for a canary run")
            canary = start_canary(client, target)["runId"]
            self._until(lambda: canary_done(client, canary), "a canary run")
            self._console.step(f"canary {canary} succeeded")
            remove_canary(client)
        seconds = monotonic() - begin
        self._console.banner(
            Banner(
                version=version("tocsin"),
                seconds=seconds,
                api=api,
                target=target,
                wanted_port=options.port,
                port=port,
                data=options.data,
                samples=samples,
            )
        )

    def _settings(self, api: str, port: int) -> dict[str, str]:
        return {
            "TOCSIN_DATABASE_URL": self._stores.postgres.url,
            "TOCSIN_BROKER_URL": self._stores.broker.url,
            "TOCSIN_API_URL": api,
            "TOCSIN_DRAIN_TIMEOUT": str(DRAIN_SECONDS),
            "TOCSIN_HTTP_ALLOW": ",".join(filter(None, (os.environ.get("TOCSIN_HTTP_ALLOW"), LOOPBACK))),
            "host": self._options.host,
            "port": str(port),
        }

    def _let_go(self) -> None:
        """Look at what has happened without waiting."""
        while not self._events.empty():
            self._handle_start(self._events.get())

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = monotonic() + _READY_SECONDS
        while not reached():
            if monotonic() > deadline:
                raise _failed(f"{what} is not ready after {_READY_SECONDS:.0f} s", self._last_lines())
            event = self._next(0.05)
            if event is not None:
                self._handle_start(event)

    def _handle_start(self, event: Any) -> None:
        match event:
            case Said(name, line):
                self._console.forward(name, line)
            case Told():
                raise StopAskedError
            case Ended(name, code):
                child = self._children.get(name)
                raise _failed(f"{name} ended while starting (exit code {code})", _tail(child))

    def _next(self, seconds: float | None) -> Any:
        try:
            return self._events.get(timeout=seconds)
        except Empty:
            return None

    def _serve(self) -> None:
        while True:
            match self._next(self._restarts.wait(monotonic())):
                case Said(name, line):
                    self._console.forward(name, line)
                case Told():
                    return
                case Ended(name, code):
                    self._ended(name, code)
                case None:
                    for name in self._restarts.take_due(monotonic()):
                        self._children[name].restart(self._variables)

    def _ended(self, name: str, code: int | None) -> None:
        child = self._children.get(name)
        if child is None:
            raise _failed(f"{name} ended, and nothing works without it", [])
        pause = self._restarts.ended(name, monotonic())
        if pause is None:
            raise _failed(f"{name} ended {CRASHES} times within {CRASH_WINDOW:.0f} s", _tail(child))
        for line in _tail(child):
            self._console.line(name, "ERROR", line)
        self._console.line(
            "dev", "WARNING", f"{name} ended (exit code {code}); it starts again in {pause:g} s"
        )

    def _last_lines(self) -> list[str]:
        return [f"{name}: {line}" for name, child in self._children.items() for line in _tail(child)[-5:]]

    def _stop(self) -> None:
        if self._signals and self._begun:
            self._console.say("stopping; Ctrl-C again kills")
        order = [self._children[name] for name in ("beat", "worker", "api") if name in self._children]
        for child in order[:2]:
            child.terminate()
        deadline = monotonic() + (DRAIN_SECONDS + 1.0 if self._begun else 0.0)
        for child in order[:2]:
            child.wait(deadline - monotonic())
        for child in order[2:]:
            child.terminate()
            child.wait(2.0 if self._begun else 0.0)
        if self._begun:
            self._console.say(counts.since_start(self._stores.postgres))
        self._stores.stop()
        if self._target is not None:
            self._target.stop()


def _tail(child: Child | None) -> list[str]:
    return list(child.last_lines)[-15:] if child else []


def _failed(what: str, lines: list[str]) -> Failure:
    return Failure(
        what,
        exit_code=ExitCode.UNREACHABLE,
        code="dev_failed",
        problems=lines,
        fix="read the lines above; start again with --verbose to see everything",
    )
