"""A worker paused past its lease and woken, 200 times: it must change nothing of the attempt that replaced it.

Starts PostgreSQL and the embedded broker, two workers and, for each round, a receiver. A round (`tasks.paused`)
stops the first worker with `--runs` runs in hand and their successes in its sockets, lets the second one end them
as failed, and wakes the first. `--rounds` times `--runs` is how often a result was refused.

    python ops/acceptance/paused_worker.py --rounds 40 --runs 5

The exit code is 0 when no row differs. The weakness: the reaper's statement is played by the script.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.processes import Process  # noqa: E402
from tasks.paused import Scene  # noqa: E402
from tasks.table import Table, publisher  # noqa: E402
from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres  # noqa: E402
from tocsin.store.migrate import upgrade  # noqa: E402
from tocsin.store.shards import connect  # noqa: E402


def main() -> int:
    """Run the rounds; 0 when the woken worker never changed a row."""
    options = arguments()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-paused-")))
        server = EmbeddedPostgres().start()
        stack.callback(server.stop)
        url = server.url_of("postgres")
        upgrade(url)
        broker = stack.enter_context(EmbeddedBroker())
        env = {"TOCSIN_DATABASE_URL": url, "TOCSIN_BROKER_URL": broker.url, "TOCSIN_HTTP_ALLOW": "127.0.0.1"}
        env |= {"TOCSIN_RUN_LEASE": "2", "TOCSIN_HEARTBEAT_INTERVAL": "0.5"}
        first, second = (start(stack, tier, env) for tier in ("default", "critical"))
        scene = Scene(
            table=Table(stack.enter_context(connect(url))),
            first=first,
            second=second,
            publish=publisher(broker.url),
        )
        return drive(scene, place, options)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="times that the worker is paused")
    parser.add_argument("--runs", type=int, default=5, help="runs that it has in hand each time")
    return parser.parse_args()


def start(stack: ExitStack, tier: str, env: dict[str, str]) -> Process:
    """A worker of one tier, ready."""
    command = [sys.executable, "-m", "tocsin_tasks", "--tier", tier]
    process = stack.enter_context(Process(command, env=env, name=tier))
    process.wait_for_line("worker ready", timeout=90)
    return process


def drive(scene: Scene, place: Path, options: argparse.Namespace) -> int:
    """All rounds; what went wrong is printed."""
    began, wrong = time.monotonic(), 0
    for number in range(options.rounds):
        for line in scene.round(options.runs, place / f"{number}.jsonl"):
            wrong += 1
            print(line, flush=True)
    text = scene.first.text()
    print(
        f"{options.rounds} pauses, {options.rounds * options.runs} runs replaced, {wrong} overwritten,"
        f" in {time.monotonic() - began:.0f} s; the woken worker wrote 'its lease was lost' for"
        f" {text.count('discarded')} results and cut {text.count('is cut')} attempts"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
