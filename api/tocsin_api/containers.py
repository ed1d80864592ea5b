"""Refuses jobs whose container asks for more than the operator's policy allows (`TOCSIN_POLICY_FILE`).

The policy is this process's own; the worker checks again by its own before it executes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.errors import InvalidError
from tocsin.model.docker_policy import check
from tocsin.model.docker_task import DockerTask
from tocsin.operator_policy import OperatorPolicy


def check_container(policy: OperatorPolicy, document: Mapping[str, Any]) -> None:
    """Raise InvalidError that names everything this valid job document asks for in excess."""
    task = document["task"].get("docker")
    if task is not None:
        owner = document["owner"]
        problems = check(policy.docker.rules(owner), DockerTask.model_validate(task), owner)
        if problems:
            raise InvalidError(problems)
