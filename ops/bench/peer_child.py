"""The other schedulers and workers, each alone in a process; prints one JSON line {"rate", "conditions"}.

    python ops/bench/peer_child.py WHAT COUNT DATABASE BROKER REDIS

`beat`, `redbeat` and `apscheduler` have COUNT entries that are due and send (or run) each once. `procrastinate`
and `dbos` work off COUNT jobs that do nothing. Each is used as its documentation says, with its default settings
but for what is named in the conditions.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any


def _celery(broker: str, **conf: Any) -> Any:
    from celery import Celery

    app = Celery("peer", broker=broker)
    app.conf.update(task_ignore_result=True, **conf)
    return app


def _sends(app: Any, scheduler: Any, count: int) -> float:
    """Tick until COUNT messages are sent; messages a second."""
    sent, send = 0, scheduler.apply_async

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal sent
        sent += 1
        return send(*args, **kwargs)

    scheduler.apply_async = counted
    begin = time.perf_counter()
    while sent < count:
        scheduler.tick()
    return count / (time.perf_counter() - begin)


def beat(count: int, database: str, broker: str, redis: str) -> tuple[float, str]:
    """Celery's own scheduler, entries in memory."""
    from celery.beat import Scheduler
    from celery.schedules import schedule

    app = _celery(broker)
    past = datetime.now(UTC) - timedelta(hours=2)
    app.conf.beat_schedule = {
        f"e{n}": {"task": "noop", "schedule": schedule(timedelta(hours=1), app=app)} for n in range(count)
    }
    scheduler = Scheduler(app, lazy=True)
    scheduler.setup_schedule()
    scheduler.merge_inplace(app.conf.beat_schedule)
    for entry in scheduler.schedule.values():
        entry.last_run_at = past
    return _sends(app, scheduler, count), "entries in memory, no confirms"


def redbeat(count: int, database: str, broker: str, redis: str) -> tuple[float, str]:
    """RedBeat, entries in Redis."""
    from celery.schedules import schedule
    from redbeat import RedBeatScheduler, RedBeatSchedulerEntry

    app = _celery(broker, redbeat_redis_url=redis, redbeat_lock_key=None)
    scheduler = RedBeatScheduler(app, lazy=True)
    past = datetime.now(UTC) - timedelta(hours=2)
    for number in range(count):
        every = schedule(timedelta(hours=1), app=app)
        entry = RedBeatSchedulerEntry(f"e{number}", "noop", every, app=app)
        entry.last_run_at = past
        entry.save()
        entry.reschedule(past)
    return _sends(app, scheduler, count), "entries in Redis, no confirms"


def apscheduler(count: int, database: str, broker: str, redis: str) -> tuple[float, str]:
    """APScheduler 3 with its jobs in PostgreSQL; the jobs do nothing."""
    from apscheduler.schedulers.background import BackgroundScheduler

    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_jobstore("sqlalchemy", url=database.replace("postgresql://", "postgresql+psycopg://"))
    scheduler.start(paused=True)
    now = datetime.now(UTC)
    for number in range(count):
        scheduler.add_job(
            _noop, "interval", hours=1, id=f"e{number}", next_run_time=now, misfire_grace_time=None
        )
    begin = time.perf_counter()
    scheduler.resume()
    while _DONE[0] < count:
        time.sleep(0.01)
    rate = count / (time.perf_counter() - begin)
    scheduler.shutdown(wait=False)
    return rate, "jobs in PostgreSQL, run in threads"


_DONE = [0]


def _noop() -> None:
    _DONE[0] += 1


def procrastinate(count: int, database: str, broker: str, redis: str) -> tuple[float, str]:
    """Procrastinate on PostgreSQL, 20 jobs at once."""
    import asyncio

    import procrastinate as peer

    app = peer.App(connector=peer.PsycopgConnector(conninfo=database))

    @app.task(name="noop")
    async def noop() -> None:
        _DONE[0] += 1

    async def work() -> float:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            await noop.batch_defer_async(*({} for _ in range(count)))
            begin = time.perf_counter()
            await app.run_worker_async(wait=False, concurrency=20, install_signal_handlers=False)
            return count / (time.perf_counter() - begin)

    rate = asyncio.run(work())
    assert _DONE[0] == count
    return rate, "concurrency 20"


def dbos(count: int, database: str, broker: str, redis: str) -> tuple[float, str]:
    """DBOS on PostgreSQL: queued workflows without steps."""
    from dbos import DBOS, DBOSConfig

    config: DBOSConfig = {"name": "peer", "system_database_url": database}
    DBOS(config=config)

    @DBOS.workflow()
    def noop() -> None:
        _DONE[0] += 1

    DBOS.launch()
    queue = DBOS.register_queue("peer")
    begin = time.perf_counter()
    handles = [queue.enqueue(noop) for _ in range(count)]
    for handle in handles:
        handle.get_result()
    rate = count / (time.perf_counter() - begin)
    DBOS.destroy()
    return rate, "one queue, enqueueing included"


PEERS: dict[str, Callable[[int, str, str, str], tuple[float, str]]] = {
    "beat": beat,
    "redbeat": redbeat,
    "apscheduler": apscheduler,
    "procrastinate": procrastinate,
    "dbos": dbos,
}

if __name__ == "__main__":
    logging.disable(logging.ERROR)
    rate, conditions = PEERS[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:6])
    print(json.dumps({"rate": rate, "conditions": conditions}), flush=True)
