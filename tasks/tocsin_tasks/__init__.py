"""The worker: claims runs, executes them, records how they ended.

`celery -A tocsin_tasks worker` works too: the attribute `celery` is the app that the environment describes.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """The Celery app, made when it is first asked for."""
    if name == "celery":
        from tocsin_tasks.app import __getattr__ as app_attribute

        return app_attribute(name)
    raise AttributeError(name)
