"""The short form of ops/acceptance/shard_down.py: a server away for some seconds, refused or silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from platform_e2e.platform import Platform
from shards.outage import Outage, address, quantile, two_servers
from support.receiver import Receiver

OUTAGE = 8  # seconds


@pytest.mark.parametrize("how", ["stop", "freeze"])
def test_a_shard_that_is_away_costs_the_other_nothing(
    tmp_path: Path, rabbitmq_vhost: str, receiver: Receiver, how: str
) -> None:
    with (
        two_servers(tmp_path) as servers,
        Platform(address(servers), rabbitmq_vhost, watched=servers[0].url) as platform,
    ):
        node = platform.node()
        platform.worker()
        seen = Outage(platform, receiver, servers, 5).run(how, OUTAGE)
        # What waited for the shard that is away would be late by the length of the outage. The figures on a quiet
        # machine are those of the long form.
        assert quantile(seen.during, 0.99) < quantile(seen.before, 0.99) + OUTAGE / 2
        assert quantile(seen.during, 0.5) < quantile(seen.before, 0.5) + OUTAGE / 8
        assert max(seen.answers) < 2
        if how == "stop":
            node.wait_for_line("shard_failed shard=512-1023")
        assert "shard_failed shard=0-511" not in node.text()


def test_a_node_starts_without_one_of_its_shards(
    tmp_path: Path, rabbitmq_vhost: str, receiver: Receiver
) -> None:
    with (
        two_servers(tmp_path) as servers,
        Platform(address(servers), rabbitmq_vhost, watched=servers[0].url) as platform,
    ):
        outage = Outage(platform, receiver, servers, 2)
        with servers[1].away("stop"):
            platform.node().wait_for_line("beat goes on without shard=512-1023")
            platform.worker()
            outage.wait(0, 2)
        outage.wait(1, 2)


def test_with_zookeeper_the_first_shard_may_go_as_well(
    tmp_path: Path, rabbitmq_vhost: str, receiver: Receiver, zookeeper: str
) -> None:
    with (
        two_servers(tmp_path) as servers,
        Platform(
            address(servers), rabbitmq_vhost, watched=servers[1].url, TOCSIN_COORDINATOR=zookeeper
        ) as platform,
    ):
        platform.node()
        platform.worker()
        seen = Outage(platform, receiver, servers, 3, gone=0).run("stop", 6)
        assert quantile(seen.during, 0.99) < quantile(seen.before, 0.99) + 0.5
        assert max(seen.answers) < 2
