"""Fixtures on real services. A missing service is a failure, never a skip: run `make services`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.databases import TEMPLATE, Databases
from support.pgbouncer import PgBouncer
from support.rabbitmq import MissingServiceError, RabbitCluster, RabbitNode
from support.receiver import Receiver
from support.session import Leftover, Session
from support.shards import own_identity
from support.zookeeper import Ensemble, ZooKeeperServer
from tocsin.egress import LOOPBACK
from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres, EmbeddedServerError

_SESSION = Session()
_LEFT: list[Leftover | str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Mark what this process starts; with xdist the workers start things, not the controller."""
    # The receivers of the tests are on loopback. What tests the guard itself says otherwise.
    os.environ["TOCSIN_HTTP_ALLOW"] = LOOPBACK
    if not config.getoption("numprocesses", None) and not config.option.collectonly:
        _SESSION.begin()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After the last finalizer: a process that is left fails the session. A worker of xdist tells the controller."""
    _LEFT.extend(_SESSION.end())
    if _LEFT:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left"] = [str(leftover) for leftover in _LEFT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """What a worker of xdist has left, at the controller."""
    _LEFT.extend(getattr(node, "workeroutput", {}).get("left", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the processes that were left."""
    if _LEFT:
        terminalreporter.section("processes left by the tests (ended now)", red=True)
        for leftover in _LEFT:
            terminalreporter.line(str(leftover))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """One PostgreSQL for the session, without fsync."""
    settings = {"fsync": False, "full_page_writes": False, "max_connections": 300}
    try:
        server = EmbeddedPostgres(settings=settings).start()
    except EmbeddedServerError as error:
        pytest.fail(f"PostgreSQL did not start: {error}", pytrace=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgres_server: EmbeddedPostgres) -> Databases:
    """Creates and drops databases on the session's server."""
    return Databases(postgres_server)


@pytest.fixture(scope="session")
def template_database(databases: Databases) -> str:
    """The name of a database with the newest schema; nobody connects to it, it is only copied."""
    from tocsin.store.migrate import upgrade  # not needed by tests that use no migrated database

    databases.make_template(upgrade)
    return TEMPLATE


@pytest.fixture
def new_database(databases: Databases, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes one more database: `new_database()` is migrated, `new_database(migrated=False)` empty."""
    names: list[str] = []

    def create(*, migrated: bool = True) -> str:
        template = request.getfixturevalue("template_database") if migrated else "template1"
        names.append(databases.create(template=template))
        return databases.server.url_of(names[-1])

    yield create
    for name in names:
        databases.drop(name)


@pytest.fixture
def database_url(new_database: Callable[..., str]) -> str:
    """The SQLAlchemy URL of a fresh, migrated database; `support.databases.libpq` makes it a libpq URL."""
    return new_database()


@pytest.fixture
def shard_urls(new_database: Callable[..., str]) -> list[str]:
    """Two migrated databases, for partitions 0-511 and 512-1023."""
    return [own_identity(new_database()) for _ in range(2)]


@pytest.fixture
def sharded(shard_urls: list[str]) -> str:
    """TOCSIN_DATABASE_URL of both."""
    return f"0-511={shard_urls[0]},512-1023={shard_urls[1]}"


@pytest.fixture(scope="session")
def pgbouncer(
    postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PgBouncer]:
    """PgBouncer in transaction mode before the session's PostgreSQL."""
    try:
        pooler = PgBouncer(tmp_path_factory.mktemp("pgbouncer"), postgres_server.url)
    except MissingServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with pooler:
        yield pooler


@pytest.fixture(scope="session")
def rabbitmq_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    """One RabbitMQ node for the session. A test that kills or restarts it uses a node of its own."""
    try:
        node = RabbitNode(tmp_path_factory.mktemp("rabbitmq"))
    except MissingServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with node:
        yield node


@pytest.fixture(scope="session")
def rabbitmq(rabbitmq_node: RabbitNode) -> str:
    """The URL of the session's RabbitMQ; queues are shared by all tests, so give them names of your own."""
    return rabbitmq_node.url


@pytest.fixture
def rabbitmq_vhost(rabbitmq_node: RabbitNode) -> Iterator[str]:
    """The URL of a virtual host of the test's own on the session's RabbitMQ."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield rabbitmq_node.add_vhost(name)
    rabbitmq_node.delete_vhost(name)


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One ZooKeeper for the session. A test that stops or kills it uses a server of its own."""
    try:
        server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    except MissingServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with server:
        yield server


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperServer) -> str:
    """A value of TOCSIN_COORDINATOR on the session's ZooKeeper, with a chroot of the test's own."""
    return f"zookeeper://{zookeeper_server.address}/test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def zookeeper_ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    """Three ZooKeeper servers of the test's own; kill what you like."""
    try:
        ensemble = Ensemble(tmp_path / "ensemble")
    except MissingServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitCluster]:
    """Three RabbitMQ nodes for the session; take `rabbitmq_cluster`."""
    try:
        cluster = RabbitCluster(tmp_path_factory.mktemp("rabbitmq-cluster"))
    except MissingServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with cluster:
        yield cluster


@pytest.fixture
def rabbitmq_cluster(started_cluster: RabbitCluster) -> Iterator[RabbitCluster]:
    """Three RabbitMQ nodes, all up; a test may kill or pause them."""
    yield started_cluster
    started_cluster.heal()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of the session's Redis-compatible broker."""
    try:
        broker = EmbeddedBroker().start()
    except EmbeddedServerError as error:
        pytest.fail(f"the broker did not start: {error}", pytrace=False)
    yield broker.url
    broker.stop()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """An HTTP receiver in a process of its own, with an empty log."""
    with Receiver(tmp_path / "receiver.jsonl") as running:
        yield running
