"""The worker process: `tocsin worker` and `python -m tocsin_tasks`.

Celery's worker runs in this process with its solo pool, whose part is empty: the executor's thread does the
work. The first SIGTERM or SIGINT stops consuming and drains; the second one gives up what still runs, so that
other workers go on at once; the third one ends the process, and the leases of its runs expire. When the worker
consumes it prints one line, `worker ready id=… tiers=… [pools=…]`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from celery.worker import state

from tocsin.errors import InvalidError
from tocsin.model.job import DEFAULT_POOL
from tocsin.model.status import Tier
from tocsin.settings import Settings
from tocsin_tasks import descriptors
from tocsin_tasks.app import TocsinApp, make_app

NO_ENGINE = 69  # the exit code of a worker that cannot reach its container engine (EX_UNAVAILABLE)


def run(settings: Settings, tiers: Sequence[Tier] = tuple(Tier)) -> int:
    """Work until told to stop; the exit code of the process."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every call
    descriptors.reserve(settings.worker_slots)
    app = make_app(settings, tiers)
    try:
        app.open_engine()
    except InvalidError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return NO_ENGINE
    worker = app.WorkController(
        # Two workers of one name would ask for the same exclusive queue, and the second would never start.
        hostname=f"tocsin@{app.worker_id}",
        pool="solo",
        concurrency=1,
        loglevel="INFO",
        ready_callback=lambda _consumer: _say_ready(app, tiers),
        task_events=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stopper(worker, app))
    worker.start()
    return int(worker.exitcode or 0)


def _stopper(worker: Any, app: TocsinApp) -> Any:
    signals = 0

    def handle(number: int, _frame: object) -> None:
        nonlocal signals
        signals += 1
        if signals > 2:
            os._exit(128 + number)
        if signals == 2:
            app.hurry()
            return
        state.should_stop = 0
        # The event loop looks at the flag between two polls: end the poll it may be in.
        if getattr(worker, "hub", None) is not None:
            worker.hub.call_soon(lambda: None)

    return handle


def _say_ready(app: TocsinApp, tiers: Sequence[Tier]) -> None:
    pools = app.settings.pool_names
    served = f"tiers={','.join(tiers)}" + ("" if pools == [DEFAULT_POOL] else f" pools={','.join(pools)}")
    print(f"worker ready id={app.worker_id} {served}", file=sys.stdout, flush=True)  # noqa: T201
