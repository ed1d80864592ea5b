"""One platform on RabbitMQ, one on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from platform_e2e.platform import Platform, started
from tocsin.embedded import EmbeddedBroker


@pytest.fixture
def platform(database_url: str, rabbitmq_vhost: str) -> Iterator[Platform]:
    """On RabbitMQ, a virtual host of its own."""
    yield from started(database_url, rabbitmq_vhost)


@pytest.fixture
def embedded_platform(database_url: str) -> Iterator[Platform]:
    """On the embedded broker, an own one, since its queues have no virtual hosts."""
    with EmbeddedBroker() as broker:
        yield from started(database_url, broker.url)
