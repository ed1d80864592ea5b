"""`/openapi.json` and `/docs`."""

from __future__ import annotations

from starlette.routing import BaseRoute


def documentation_routes() -> list[BaseRoute]:
    return []
