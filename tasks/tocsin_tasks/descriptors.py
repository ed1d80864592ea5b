"""Enough file descriptors for the slots: each running HTTP call holds a socket, each idle connection another."""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)
SPARE = 256  # broker, databases, logs, resolver


def reserve(slots: int) -> None:
    """Raise this process's soft limit to what `slots` need; warn when the hard limit forbids it."""
    needed = slots + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < needed:
        logger.warning(
            "TOCSIN_WORKER_SLOTS=%d needs %d file descriptors and only %d are allowed: raise the limit (ulimit -Hn),"
            " or lower the slots",
            slots,
            needed,
            hard,
        )
