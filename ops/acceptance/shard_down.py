"""A Postgres server with half of the partitions is away for a minute; what the other half notices, and what is missed.

Starts two PostgreSQL servers, RabbitMQ, an API, two nodes and two workers, with `--jobs` jobs a second on each
server. After half the time the second server goes away (`stop`: refused, `freeze`: silent) for `--seconds`, and
comes back. A witness with a log of its own judges: every second of every job was executed, those of the server
that stayed exactly once. Prints the lateness of the latter before and during the outage.

    python ops/acceptance/shard_down.py --seconds 60 --how stop
    python ops/acceptance/shard_down.py --seconds 60 --how freeze

The weakness: everything shares one machine, so the load of the catch-up is on the server that stayed as well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from platform_e2e.platform import Platform  # noqa: E402
from shards.outage import Outage, Seen, address, two_servers  # noqa: E402
from support.rabbitmq import RabbitNode  # noqa: E402
from support.receiver import Receiver  # noqa: E402


def measure(how: str, seconds: int, jobs: int) -> Seen:
    """Run it in a directory of its own."""
    with (
        tempfile.TemporaryDirectory() as name,
        two_servers(Path(name)) as servers,
        RabbitNode(Path(name) / "rabbitmq") as rabbit,
        Receiver(Path(name) / "receiver.jsonl") as receiver,
        Platform(address(servers), rabbit.url, watched=servers[0].url) as platform,
    ):
        for _ in range(2):
            platform.node()
            platform.worker()
        return Outage(platform, receiver, servers, jobs).run(how, seconds)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--how", choices=["stop", "freeze"], default="stop")
    parser.add_argument("--jobs", type=int, default=20)
    options = parser.parse_args()
    seen = measure(options.how, options.seconds, options.jobs)
    print(f"the other server was away for {seen.away:.0f} s ({options.how}); nothing missed")
    print(seen.line("lateness before", seen.before))
    print(seen.line("lateness during", seen.during))
    print(seen.line("the API's answers for jobs that are there, during", seen.answers))
    print(
        f"first run of its jobs {seen.back_after:.1f} s after it came back; its latest run {seen.worst:.1f} s late"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
