"""What `api`, `beat`, `worker` and `db` have in common: settings from the environment, and log lines."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure

if TYPE_CHECKING:
    from tocsin.settings import Settings

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def settings_or_fail(**overrides: Any) -> Settings:
    """The settings of this process. Raises Failure (7) naming every wrong variable."""
    from tocsin.errors import InvalidError
    from tocsin.settings import load

    try:
        return load(**overrides)
    except InvalidError as error:
        raise Failure(
            "the settings are not valid",
            exit_code=ExitCode.INVALID,
            code="settings",
            problems=[f"{item.pointer}: {item.detail}" for item in error.problems],
            fix="; ".join(dict.fromkeys(item.fix for item in error.problems)),
        ) from None


def log_to_stderr(level: str | None = None) -> None:
    """Plain log lines on stderr, unless the process has been given handlers already."""
    chosen = (level or os.environ.get("TOCSIN_LOG_LEVEL") or "INFO").upper()
    known = chosen if chosen in logging.getLevelNamesMapping() else "INFO"
    logging.basicConfig(stream=sys.stderr, level=known, format=LOG_FORMAT)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
