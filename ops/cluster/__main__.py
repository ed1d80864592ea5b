"""`make cluster-test`: the compose cluster brought up for real, loaded, broken, judged and torn down.

    python -m cluster [--runs 5000] [--seconds 90] [--no-build]       (PYTHONPATH=ops)

1. The images are built (ops/offline/images.sh) and the cluster comes up; every service has to become healthy.
2. A wave of `--runs` runs goes through it.
3. Under a second wave of `--seconds` seconds a beat container, a RabbitMQ container and the leading ZooKeeper
   container are killed (SIGKILL) one after the other, and started again.
4. The witness's log is judged: missed 0, double runs 0, in both waves. All services have to be healthy again.
5. Everything is removed; nothing may be left.

Exits with 1 and says why when any of this does not hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from datetime import UTC, datetime

from cluster.engine import ROOT, Cluster, ClusterError, docker
from cluster.load import Verdict, Wave, judge, next_second

HEALTHY_SECONDS = 240.0
SETTLE_SECONDS = 90.0
DOWN_SECONDS = 8.0  # how long a killed container stays away
RATE = 100  # runs a second of the first wave
JOBS = 50  # of the second wave


def main() -> int:
    """Run the test; the exit code."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5000, help="runs of the first wave")
    parser.add_argument("--seconds", type=int, default=90, help="length of the second wave, 60 at least")
    parser.add_argument("--no-build", action="store_true", help="take the images that are there")
    chosen = parser.parse_args()
    if chosen.runs < RATE or chosen.seconds < 60:
        parser.error(f"--runs must be at least {RATE}, --seconds at least 60")
    begun = time.monotonic()
    try:
        subprocess.run([ROOT / "compose/secrets.sh"], check=True)
        if not chosen.no_build:
            subprocess.run([ROOT / "ops/offline/images.sh"], check=True)
            say(f"images built in {time.monotonic() - begun:.0f} s")
        say(f"image: {image_facts()}")
        good = tried(chosen)
    except (ClusterError, subprocess.CalledProcessError) as error:
        say(f"failed: {error}")
        return 1
    say(f"{'passed' if good else 'FAILED'} after {time.monotonic() - begun:.0f} s")
    return 0 if good else 1


def tried(chosen: argparse.Namespace) -> bool:
    """Up, load, kills, verdicts, down. Raises ClusterError."""
    with Cluster() as cluster:
        try:
            come_up(cluster)
            calm = wave(
                cluster, Wave(name="calm", jobs=RATE, start=next_second(25), seconds=chosen.runs // RATE)
            )
            say(f"calm: {calm}")
            storm = Wave(name="storm", jobs=JOBS, start=next_second(20), seconds=chosen.seconds)
            broken = wave(cluster, storm, breaking=True)
            say(f"under kills: {broken}")
            again = cluster.wait_healthy(SETTLE_SECONDS)
            say(f"all healthy again {again:.0f} s after the last run")
        except ClusterError:
            tell(cluster)
            raise
    left = cluster.left()
    say(f"left over: {', '.join(left) if left else 'nothing'}")
    return calm.good and broken.good and not left


def come_up(cluster: Cluster) -> None:
    """Start everything, wait, say how long it took."""
    begun = time.monotonic()
    cluster.up()
    cluster.wait_healthy(HEALTHY_SECONDS)
    say(f"all {len(cluster.states())} services healthy after {time.monotonic() - begun:.0f} s")
    print(cluster.logs("banner"), end="", flush=True)


def wave(cluster: Cluster, asked: Wave, breaking: bool = False) -> Verdict:
    """Make the jobs, break things meanwhile when asked to, and judge when all is in or nothing more can come."""
    asked.create(cluster.api)
    if datetime.now(UTC) > asked.start:
        raise ClusterError(f"the jobs of {asked.name} were made too late for their start")
    if breaking:
        break_things(cluster, asked)
    remaining = (asked.end - datetime.now(UTC)).total_seconds()
    time.sleep(max(0.0, remaining))
    verdict = judged(cluster, asked)
    begun = time.monotonic()
    while verdict.missed and time.monotonic() - begun < SETTLE_SECONDS:
        time.sleep(1)
        verdict = judged(cluster, asked)
    time.sleep(3)  # a second call of a run would come now
    return judged(cluster, asked)


def judged(cluster: Cluster, asked: Wave) -> Verdict:
    """The verdict by the witness's log as it is now."""
    return judge(asked, cluster.execute("witness", "cat", "/log/calls.jsonl").splitlines())


def break_things(cluster: Cluster, asked: Wave) -> None:
    """Kill three containers at a sixth, a half and five sixths of the wave, less the time they stay away."""
    victims = ("beat-1", "rabbitmq-1", zookeeper_leader(cluster))
    for number, service in enumerate(victims):
        at = asked.start.timestamp() + asked.seconds * (1 + 2 * number) / 6 - DOWN_SECONDS / 2
        time.sleep(max(0.0, at - time.time()))
        container = cluster.container(service)
        docker("kill", container)
        say(f"killed {service}, {time.time() - asked.start.timestamp():.0f} s into the wave")
        time.sleep(DOWN_SECONDS)
        docker("start", container)


def zookeeper_leader(cluster: Cluster) -> str:
    """The service that leads the ensemble. Raises ClusterError when none does."""
    ask = "exec 3<>/dev/tcp/127.0.0.1/2181; printf srvr >&3; cat <&3"
    for number in (1, 2, 3):
        if "Mode: leader" in cluster.execute(f"zookeeper-{number}", "bash", "-c", ask):
            return f"zookeeper-{number}"
    raise ClusterError("no ZooKeeper server leads")


def image_facts() -> str:
    """Size and user of the image of all roles, and the time until its command answers."""
    form = "{{.Size}} {{.Config.User}}"
    size, user = docker("image", "inspect", "--format", form, "tocsin:dev").split()
    begun = time.monotonic()
    version = docker("run", "--rm", "--network", "none", "tocsin:dev", "tocsin", "--version").strip()
    took = time.monotonic() - begun
    return f"{int(size) / 1e6:.0f} MB with its base, user {user}, `{version}` answered after {took:.1f} s"


def tell(cluster: Cluster) -> None:
    """The last words of what is not well."""
    for service, state in cluster.unwell().items():
        say(f"--- {service} ({state})\n{cluster.logs(service)}")


def say(text: str) -> None:
    """One line for whoever watches."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
