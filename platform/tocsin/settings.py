"""Every setting of every tocsin process, read from `TOCSIN_*` environment variables and checked at start.

Durations are in seconds unless the name says otherwise. `docs/settings.md` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tocsin.coordination import ZooKeeperAddress, check_zone, parse_auth, parse_coordinator
from tocsin.errors import InvalidError, Problem
from tocsin.model.job import DEFAULT_POOL
from tocsin.operator_policy import OperatorPolicy, load_policy
from tocsin.queues import MAX_SPREAD, is_amqp, parse_pools
from tocsin.store.shards import ShardMap, parse_shards


class Settings(BaseSettings):
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
    output_limit: int = Field(262_144, ge=0, le=16_777_216, description="Bytes of a run's output kept.")
    body_limit: int = Field(1_048_576, ge=1024, description="Bytes of a request body that the API accepts.")

    policy_file: str = Field(
        "",
        description="The operator's policy (YAML), the same for API and workers: what teams may loosen. "
        "Empty: the built-in one, which loosens nothing; docs/docker-jobs.md has both.",
    )
    docker_url: str = Field(
        "",
        description="Docker engine of this worker, such as `unix:///var/run/docker.sock`; empty: it runs no "
        "containers.",
    )
    docker_slots: int = Field(
        200,
        ge=1,
        le=5000,
        description="Containers of one worker process at once, beside `TOCSIN_WORKER_SLOTS`.",
    )
    docker_look: float = Field(
        5.0,
        gt=0,
        le=60,
        description="Time between two looks at all containers of the engine, beside its events.",
    )
    docker_clean: float = Field(
        30.0, gt=0, le=3600, description="Time between two searches for containers whose run is over."
    )

    @field_validator("database_url", "broker_url", "coordinator", "zookeeper_auth", "zone")
    @classmethod
    def _well_formed(cls, value: str, info: ValidationInfo) -> str:
        checks: dict[str, Callable[[str], object]] = {
            "database_url": parse_shards,
            "broker_url": parse_brokers,
            "coordinator": parse_coordinator,
            "zookeeper_auth": parse_auth,
            "zone": check_zone,
        }
        checks[str(info.field_name)](value)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.heartbeat_interval * 2 > self.run_lease:
            raise ValueError("TOCSIN_HEARTBEAT_INTERVAL must be at most half of TOCSIN_RUN_LEASE")
        _ = self.shards, self.broker_urls, self.pool_names, self.policy
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

    @cached_property
    def policy(self) -> OperatorPolicy:
        """What the operator lets teams loosen. Raises InvalidError."""
        return load_policy(self.policy_file)

    @property
    def zookeeper(self) -> ZooKeeperAddress | None:
        """The ensemble that coordinates the nodes; None: Postgres does."""
        return parse_coordinator(self.coordinator)


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
