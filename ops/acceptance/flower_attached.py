"""What an attached Flower costs a worker: runs a second with it and without, on one RabbitMQ node.

    python ops/acceptance/flower_attached.py [--runs 10000] [--rounds 3] [--kind http|noop]

Each round measures twice with `ops/bench/execution.py`, in alternating order, on a virtual host of its own. The
exit code is 0 when the median with Flower is at least 0.9 of that without. The weakness: Flower, worker, database and
broker share one machine, so what Flower takes of the processor counts as well.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.processes import Process  # noqa: E402
from support.rabbitmq import RabbitNode  # noqa: E402
from tocsin.embedded.supervised import free_port  # noqa: E402

LEAST = 0.9


def rate(broker: str, options: argparse.Namespace, directory: Path, *, flower: bool) -> float:
    """Runs a second of one worker."""
    with ExitStack() as stack:
        if flower:
            env = {**os.environ, "TOCSIN_BROKER_URL": broker, "FLOWER_BASIC_AUTH": "a:b"}
            command = [sys.executable, "-m", "celery", "-A", "tocsin_tasks", "flower", "--address=127.0.0.1"]
            command.append(f"--port={free_port()}")
            process = stack.enter_context(Process(command, env=env, cwd=directory, name="flower"))
            process.wait_for_line("Connected to amqp", timeout=60)
        bench = [sys.executable, str(ROOT / "ops/bench/execution.py"), "--broker", broker]
        bench += ["--runs", str(options.runs), "--kind", options.kind]
        said = subprocess.run(bench, check=True, capture_output=True, text=True).stdout
    found = re.search(r"(\d+) runs/s", said)
    assert found is not None, said
    return float(found[1])


def main() -> int:
    """Measure, print each figure, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=["noop", "http"], default="http")
    options = parser.parse_args()
    rates: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place, RabbitNode(Path(place)) as node:
        for number in range(options.rounds):
            for flower in (False, True) if number % 2 == 0 else (True, False):
                vhost = f"round-{number}-{flower}".lower()
                node.add_vhost(vhost)
                rates[flower].append(rate(node.url_of(vhost), options, Path(place), flower=flower))
                print(
                    f"round {number + 1}, Flower {'on' if flower else 'off'}: {rates[flower][-1]:.0f} runs/s",
                    flush=True,
                )
    share = median(rates[True]) / median(rates[False])
    print(f"with Flower {share:.2f} of the runs a second without; at least {LEAST} is asked for")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
