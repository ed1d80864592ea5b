"""100 containers at once on one worker process, and a worker killed with 20 of them.

    python ops/acceptance/docker_100.py [--containers 100] [--killed 20]

Starts PostgreSQL, RabbitMQ and a Docker engine of its own (as root). Prints one JSON line a part:

1. `containers` run at once; threads and peak memory of the worker; all succeed.
2. A worker with `killed` containers gets SIGKILL and another one starts: how many containers were adopted, how many
   were made anew, whether two of one run ever ran at once (by the engine's list, asked all the time), what is left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from platform_e2e.platform import Platform  # noqa: E402
from support.docker import IMAGE, DockerEngine  # noqa: E402
from support.rabbitmq import RabbitNode  # noqa: E402
from tocsin.embedded import EmbeddedPostgres  # noqa: E402
from tocsin.store.migrate import upgrade  # noqa: E402


class Census:
    """Asks the engine all the time which runs have a running container."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine, self._end = engine, threading.Event()
        self.most, self.doubled = 0, 0
        self.made: set[str] = set()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Census:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._end.is_set():
            seen = self._engine.containers(label="tocsin.run", status="running")
            self.made |= {item["Id"] for item in seen}
            self.most = max(self.most, len(seen))
            count = Counter(item["Labels"]["tocsin.run"] for item in seen)
            self.doubled += sum(number > 1 for number in count.values())


def job(platform: Platform, name: str, seconds: int) -> str:
    """A job whose container sleeps and prints."""
    command = ["/bin/sh", "-c", f"sleep {seconds}; echo done"]
    task = {"docker": {"image": IMAGE, "command": command, "memory": "8Mi", "stopGrace": "1s"}}
    answer = platform.client.post("/jobs", json={"name": name, "task": task})
    answer.raise_for_status()
    return str(answer.json()["jobId"])


def many(platform: Platform, engine: DockerEngine, count: int) -> dict[str, Any]:
    """Part 1."""
    worker = platform.worker()
    threads = 0
    with Census(engine) as census:
        made = job(platform, "many", 60)
        begin = time.monotonic()
        runs = [platform.trigger(made) for _ in range(count)]
        while census.most < count and time.monotonic() - begin < 120:
            threads = max(threads, len(os.listdir(f"/proc/{worker.pid}/task")))
            time.sleep(0.2)
        up = time.monotonic() - begin
        ended = [platform.wait_for_end(run) for run in runs]
        threads = max(threads, len(os.listdir(f"/proc/{worker.pid}/task")))
    status = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))
    worker.terminate()
    return {
        "part": "many", "asked": count, "at once": census.most, "all up after s": round(up, 1), "threads": threads,
        "peak MiB": round(peak), "succeeded": sum(run["status"] == "succeeded" for run in ended),
        "doubled": census.doubled, "left": len(engine.containers(label="tocsin.run")),
    }  # fmt: skip


def killed(platform: Platform, engine: DockerEngine, count: int) -> dict[str, Any]:
    """Part 2."""
    first = platform.worker()
    with Census(engine) as census:
        made = job(platform, "killed", 20)
        runs = [platform.trigger(made) for _ in range(count)]
        platform.wait(lambda: len(engine.containers(label="tocsin.run", status="running")) == count)
        before = {item["Id"] for item in engine.containers(label="tocsin.run")}
        os.kill(first.pid, signal.SIGKILL)
        second = platform.worker()
        ended = [platform.wait_for_end(run) for run in runs]
        platform.wait(lambda: not engine.containers(label="tocsin.run"))
    second.terminate()
    return {
        "part": "killed", "asked": count, "adopted": second.text().count("its container is adopted"),
        "made anew": len(census.made - before), "succeeded": sum(run["status"] == "succeeded" for run in ended),
        "doubled": census.doubled, "left": len(engine.containers(label="tocsin.run")),
    }  # fmt: skip


def main() -> int:
    """Measure; 1 when something is not as it has to be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--containers", type=int, default=100)
    parser.add_argument("--killed", type=int, default=20)
    options = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-acceptance-")))
        database = stack.enter_context(EmbeddedPostgres())
        upgrade(database.url)
        broker = stack.enter_context(RabbitNode(place / "rabbitmq"))
        engine = stack.enter_context(DockerEngine(Path(tempfile.mkdtemp(prefix="dk-"))))
        env = {"TOCSIN_DOCKER_URL": engine.url, "TOCSIN_DOCKER_CLEAN": "1"}
        platform = stack.enter_context(Platform(database.url, broker.url, **env))
        platform.node()
        parts = [many(platform, engine, options.containers), killed(platform, engine, options.killed)]
    for part in parts:
        print(json.dumps(part), flush=True)
    good = all(
        part["succeeded"] == part["asked"] and not part["doubled"] and not part["left"] for part in parts
    )
    return 0 if good and parts[0]["threads"] < 40 else 1


if __name__ == "__main__":
    sys.exit(main())
