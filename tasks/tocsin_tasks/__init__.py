"""The worker: claims runs, executes them, records how they ended.

`celery -A tocsin_tasks worker` works too: the attribute `celery` is the app that the environment describes.
`tocsin_tasks.track(app)` is for the team's own app: see `tracking`.
"""

from __future__ import annotations

from typing import Any

from tocsin_tasks.tracking import track as track


def __getattr__(name: str) -> Any:
    """The Celery app, made when it is first asked for."""
    if name == "celery":
        from tocsin_tasks.app import __getattr__ as app_attribute

        return app_attribute(name)
    raise AttributeError(name)
