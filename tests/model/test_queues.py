"""Names of queues, and the settings about the broker."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidError
from tocsin.model.status import Tier
from tocsin.queues import consumed, parse_queue, queue_for
from tocsin.settings import Settings, load


@pytest.mark.parametrize("spread", [1, 2, 7])
def test_whatever_the_spread_each_run_goes_to_a_queue_that_is_consumed(spread: int) -> None:
    pools = ["default", "billing", "a-1"]
    names = consumed(Tier, pools, spread)
    assert len(set(names)) == len(names)
    sent = {queue_for(tier, pool, p, spread) for tier in Tier for pool in pools for p in range(1024)}
    assert sent <= set(names)
    assert {queue_for(tier, pool, 0, 1) for tier in Tier for pool in pools} <= set(names), "an older spread"
    assert {parse_queue(name) for name in names} == {(tier, pool) for tier in Tier for pool in pools}


def test_the_names() -> None:
    assert queue_for("default", "default", 5, 1) == "tocsin.default"
    assert queue_for("batch", "billing", 5, 4) == "tocsin.batch.billing.1"


def test_the_brokers_are_a_list() -> None:
    settings = Settings(broker_url="amqp://a/ ; amqp://b/;", pools=" billing,default,billing")
    assert settings.broker_urls == ["amqp://a/", "amqp://b/"]
    assert settings.pool_names == ["billing", "default"]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("broker_url", ";", "amqp://host"),
        ("broker_url", "localhost", "amqp://host"),
        ("broker_url", "amqp://a;redis://b", "one sort"),
        ("pools", "9lives", "'9lives' is no pool"),
        ("pools", ",", "no pool is given"),
    ],
)
def test_bad_settings_say_what_to_change(name: str, value: str, what: str) -> None:
    with pytest.raises(InvalidError) as caught:
        load(**{name: value})
    assert what in caught.value.problems[0].detail
