"""Refuses jobs whose target the operator's policy can never let through (`TOCSIN_HTTP_ALLOW`).

Only what a URL says by itself is judged here: an address, or `localhost`. What a name leads to is the worker's
to find out, each time. The policy is this process's own, so API and workers must be given the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.egress import Egress
from tocsin.errors import InvalidError, Problem


def check_target(egress: Egress, document: Mapping[str, Any]) -> None:
    """Raise InvalidError when the HTTP task of this valid job document calls a refused address."""
    task = document["task"].get("http")
    refused = egress.refused_url(task["url"]) if task else None
    if refused is not None:
        detail, fix = refused
        raise InvalidError(
            [Problem(pointer="#/task/http/url", code="target_refused", detail=detail, fix=fix)]
        )
