"""Every setting of every tocsin process, read from `TOCSIN_*` environment variables and checked at start.

Durations are in seconds unless the name says otherwise. `docs/settings.md` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from tocsin.container_settings import ContainerSettings
from tocsin.coordination import ZooKeeperAddress, check_zone, parse_auth, parse_coordinator
from tocsin.egress import Egress, parse_egress
from tocsin.errors import InvalidError, Problem
from tocsin.model.job import DEFAULT_POOL
from tocsin.queues import MAX_SPREAD, is_amqp, parse_pools
from tocsin.signature import parse_keys
from tocsin.store.shards import ShardMap, parse_shards


class Settings(ContainerSettings):
    """The settings of one process; construct with keyword arguments in tests, `load()` elsewhere."""

    model_config = SettingsConfigDict(env_prefix="TOCSIN_", extra="ignore", frozen=True)

    database_url: str = Field(
        "postgresql://localhost/tocsin",
        description="Postgres shards: one URL, or ranges of partitions as `0-511=URL,512-1023=URL`; `spare=URL` "
        "names a database without partitions, to which some can be moved.",
    )
    direct_url: str = Field(
        "",
        description="The same databases without a pooler in between, written in the same way. Needed behind "
        "PgBouncer, for `tocsin db upgrade`, `tocsin shard move` and the hints that make a manual run quick.",
    )
    broker_url: str = Field(
        "amqp://guest:guest@127.0.0.1:5672//",
        description="Celery broker; several separated by `;` fail over.",
    )
    queue_spread: int = Field(
        1,
        ge=1,
        le=MAX_SPREAD,
        description="Queues over which each tier of a pool is spread, by partition; docs/architecture.md says "
        "in which order to change it.",
    )
    pools: str = Field(
        DEFAULT_POOL, description="Pools that a worker serves, separated by commas; a job names its `pool`."
    )
    message_hold: float = Field(
        5.0,
        gt=0,
        le=600,
        description="A worker gives a message back to the broker when it could not claim its run for this long.",
    )
    celery_app: str = Field(
        "",
        description="The team's Celery app, as `celery -A` takes it: its routes and serializer are used for tasks of "
        "the kind `celery`. Without it a plain app sends to the job's queue.",
    )
    api_url: str = Field("http://127.0.0.1:7420", description="Where the CLI finds the API.")
    api_public_url: str = Field(
        "", description="Where targets find the API to call back; empty: TOCSIN_API_URL."
    )
    namespace: str = Field("default", description="Namespace of jobs created without a token.")

    retention_days: int = Field(30, ge=1, le=3650, description="Days of run history kept.")
    days_ahead: int = Field(7, ge=2, le=60, description="Day partitions of runs made ahead of time.")

    look_ahead: float = Field(
        5.0, gt=0, le=60, description="How far a node reads triggers ahead of their time."
    )
    poll_interval: float = Field(1.0, gt=0, le=10, description="Time between two look-ahead reads of a node.")
    fire_batch: int = Field(2000, ge=1, le=50_000, description="Triggers fired in one transaction at most.")
    recovery_rate: int = Field(
        2000,
        ge=1,
        description="Late triggers a second that a node fires per shard after an outage, beside what is on time; "
        "doubled every 30 s in which the oldest only grew older.",
    )
    node_lease: float = Field(
        4.0,
        ge=0.5,
        le=60,
        description="Lease of a node on its partitions; with ZooKeeper the session's timeout, "
        "which the server may raise to twice its tickTime.",
    )
    coordinator: str = Field(
        "postgres",
        description="Who says which node holds which partitions: `postgres` (its first shard), or "
        "`zookeeper://host:port,host:port/chroot`.",
    )
    zone: str = Field("", description="Zone of this node: a label such as `eu-west-1a`.")
    zookeeper_auth: str = Field(
        "",
        repr=False,
        description="`user:password` of the nodes for ZooKeeper (digest); what they make is then theirs alone. "
        "Empty: open to everybody who reaches the ensemble.",
    )
    confirm_timeout: float = Field(
        10.0, gt=0, le=300, description="Wait for a broker confirm before a message is published again."
    )
    publish_window: int = Field(1000, ge=1, le=65_535, description="Messages in flight without a confirm.")
    republish_after: float = Field(
        300.0, ge=1, description="A run that no worker has claimed for this long is published again."
    )
    reap_interval: float = Field(2.0, gt=0, le=60, description="Time between two looks for expired leases.")

    run_lease: float = Field(
        30.0, ge=1, le=3600, description="Lease of an attempt; without a heartbeat it is lost after this."
    )
    heartbeat_interval: float = Field(
        10.0, gt=0, le=600, description="Time between two heartbeats of a worker."
    )
    worker_slots: int = Field(
        500, ge=1, le=20_000, description="Runs that one worker process executes at once."
    )
    claim_batch: int = Field(
        200, ge=1, le=5000, description="Runs claimed or finished in one statement at most."
    )
    drain_timeout: float = Field(
        25.0, ge=0, description="Time that a stopping worker gives its runs to finish."
    )
    output_limit: int = Field(
        262_144,
        ge=0,
        le=16_777_216,
        description="Bytes of a run's output kept, half from its beginning and half from its end.",
    )
    body_limit: int = Field(1_048_576, ge=1024, description="Bytes of a request body that the API accepts.")

    http_allow: str = Field(
        "",
        description="Targets that HTTP tasks may call beside public addresses: ranges and names, such as "
        "`10.20.0.0/16,billing.internal,*.svc.cluster.local`; the same for workers and API.",
    )

    http_per_host: int = Field(
        0,
        ge=0,
        le=20_000,
        description="Calls at once from one worker to one origin; more wait, within their timeout. "
        "0: as many as there are slots.",
    )
    signing_key: SecretStr = Field(
        SecretStr(""),
        description="Key of the `Tocsin-Signature` on HTTP calls, at least 16 bytes; several separated by `,` "
        "sign side by side. None: calls are not signed.",
    )
    response_limit: int = Field(
        8_388_608, ge=0, le=1_073_741_824, description="Bytes of an HTTP answer read at most."
    )

    @field_validator(
        "database_url", "broker_url", "coordinator", "zookeeper_auth", "zone", "http_allow", "signing_key"
    )
    @classmethod
    def _well_formed(cls, value: Any, info: ValidationInfo) -> Any:
        checks: dict[str, Callable[[Any], object]] = {
            "database_url": parse_shards,
            "broker_url": parse_brokers,
            "coordinator": parse_coordinator,
            "zookeeper_auth": parse_auth,
            "zone": check_zone,
            "http_allow": parse_egress,
            "signing_key": lambda key: parse_keys(key.get_secret_value()),
        }
        checks[str(info.field_name)](value)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.heartbeat_interval * 2 > self.run_lease:
            raise ValueError("TOCSIN_HEARTBEAT_INTERVAL must be at most half of TOCSIN_RUN_LEASE")
        if self.output_limit > self.response_limit:
            raise ValueError("TOCSIN_RESPONSE_LIMIT must be at least TOCSIN_OUTPUT_LIMIT")
        _ = self.shards, self.broker_urls, self.pool_names, self.egress, self.signing_keys, self.policy
        return self

    @cached_property
    def broker_urls(self) -> list[str]:
        """The brokers to try in turn, all of one sort."""
        return parse_brokers(self.broker_url)

    @cached_property
    def pool_names(self) -> list[str]:
        """The pools that a worker serves. Raises ValueError."""
        return parse_pools(self.pools.split(","))

    @cached_property
    def shards(self) -> ShardMap:
        """Which database holds which partitions; it follows moves, so each Settings has one of its own."""
        return parse_shards(self.database_url, self.direct_url)

    @property
    def zookeeper(self) -> ZooKeeperAddress | None:
        """The ensemble that coordinates the nodes; None: Postgres does."""
        return parse_coordinator(self.coordinator)

    @cached_property
    def egress(self) -> Egress:
        """Which targets HTTP tasks may call."""
        return parse_egress(self.http_allow)

    @cached_property
    def signing_keys(self) -> tuple[bytes, ...]:
        """The keys that sign HTTP calls."""
        return parse_keys(self.signing_key.get_secret_value())


def parse_brokers(text: str) -> list[str]:
    """The brokers of TOCSIN_BROKER_URL. Raises ValueError."""
    urls = [url.strip() for url in text.split(";") if url.strip()]
    if not urls or not all("://" in url for url in urls):
        raise ValueError("write a URL such as amqp://host, or several separated by ;")
    if len({is_amqp(url) for url in urls}) > 1:
        raise ValueError("name brokers of one sort, RabbitMQ or another")
    return urls


def load(**overrides: object) -> Settings:
    """The settings of this process. Raises InvalidError that names each variable and says what to change."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InvalidError([_problem(e) for e in error.errors()]) from None


def _problem(error: object) -> Problem:
    assert isinstance(error, dict)
    name = "TOCSIN_" + "_".join(str(part) for part in error["loc"]).upper() if error["loc"] else "TOCSIN_*"
    return Problem(
        pointer=name,
        code="setting",
        detail=str(error["msg"]),
        fix=f"set {name} as docs/settings.md describes",
    )
