"""Settings of containers: the engine of a worker, and the operator's policy, which the API checks as well."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field
from pydantic_settings import BaseSettings

from tocsin.operator_policy import OperatorPolicy, load_policy


class ContainerSettings(BaseSettings):
    """The part of `Settings` that is about containers."""

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

    @cached_property
    def policy(self) -> OperatorPolicy:
        """What the operator lets teams loosen. Raises InvalidError."""
        return load_policy(self.policy_file)
