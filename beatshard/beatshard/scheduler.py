"""`celery -A proj beat -S beatshard.Scheduler`: a node of the sharded beat inside celery beat.

The app's `beat_schedule` is brought in as jobs of the kind `celery`; the node fires them with all others of its
partitions, and a worker of tocsin's own, a child of this process, sends the team's tasks. Any number of these
processes share the work. No schedule file is written.

Settings come from TOCSIN_*; without TOCSIN_DATABASE_URL the app's `beatshard_database_url`, without
TOCSIN_BROKER_URL the app's `broker_url`. The child ends with this process, however that ends: it reads a pipe.

Weakness: entries that are added while beat runs are seen within RELOAD seconds; ones removed then, too.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from typing import Any

from celery.beat import Scheduler as CeleryScheduler
from sqlalchemy.exc import SQLAlchemyError

from beatshard.bring_in import bring_in
from beatshard.entries import EntryError, document
from beatshard.node import Node
from tocsin import clock
from tocsin.clock import monotonic
from tocsin.errors import TocsinError
from tocsin.settings import Settings, load
from tocsin.store import migrate
from tocsin.store.shards import engine_for

log = logging.getLogger(__name__)
RELOAD = 10.0  # seconds between two looks at the app's beat_schedule
_TICK = 1.0  # seconds
_LEAVE = 20.0  # seconds that node and child have to end in order


class BeatError(TocsinError):
    """The beat cannot start or go on; the words say what to change."""


class Scheduler(CeleryScheduler):  # type: ignore[misc]
    """See the module."""

    def __init__(self, app: Any, *args: Any, **kwargs: Any) -> None:
        self._node: Node | None = None
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._entries: dict[str, Any] = {}
        self._look_at = 0.0
        super().__init__(app, *args, **kwargs)

    def setup_schedule(self) -> None:
        """Check, bring the entries in, start node and child. Raises BeatError, EntryError, InvalidError."""
        self._settings = settings_of(self.app)
        _check_schema(self._settings)
        self._bring_in()
        self._node = Node(self._settings)
        self._thread = threading.Thread(target=self._node.run_forever, name="node", daemon=True)
        self._thread.start()
        self._start_child()

    def tick(self, *_: Any, **__: Any) -> float:
        """Look after node, child and entries; seconds until the next look. Raises BeatError when the node died."""
        if self._thread is None or not self._thread.is_alive():
            raise BeatError("the node has ended; its last words are in the log")
        if self._child is not None and (code := self._child.poll()) is not None:
            log.warning("sender_ended code=%s; it is started again", code)
            self._start_child()
        if monotonic() >= self._look_at:
            try:
                self._bring_in()
            except (TocsinError, SQLAlchemyError) as error:
                log.error("beat_schedule_not_brought_in error=%s", error)
                self._look_at = monotonic() + RELOAD
        return _TICK

    def close(self) -> None:
        """Leave in order; harmless when called twice."""
        node, self._node = self._node, None
        if node is not None and self._thread is not None:
            node.stop()
            self._thread.join(_LEAVE)
        child, self._child = self._child, None
        if child is not None:
            assert child.stdin is not None
            child.stdin.close()
            try:
                child.wait(_LEAVE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    @property
    def info(self) -> str:
        """For the banner of celery beat."""
        return (
            f"    . db -> {len(settings_of(self.app).shards.shards)} shard(s), namespace {load().namespace}"
        )

    def _bring_in(self) -> None:
        self._look_at = monotonic() + RELOAD
        entries = dict(self.app.conf.beat_schedule or {})
        if self._node is not None and entries == self._entries:
            return
        name = self.app.main or "celery"
        zone, now = _zone(self.app), clock.now()
        documents = [document(key, entry, app=name, zone=zone, now=now) for key, entry in entries.items()]
        done = bring_in(self._settings.shards, self._settings.namespace, name, documents)
        self._entries = entries
        log.info(
            "beat_schedule_brought_in app=%s created=%d changed=%d removed=%d kept=%d",
            name, done.created, done.changed, done.removed, done.kept,
        )  # fmt: skip

    def _start_child(self) -> None:
        env = {
            **os.environ,
            "TOCSIN_DATABASE_URL": self._settings.database_url,
            "TOCSIN_BROKER_URL": self._settings.broker_url,
            "TOCSIN_CELERY_APP": self._settings.celery_app or _app_name(self.app),
        }
        self._child = subprocess.Popen(
            [sys.executable, "-m", "beatshard.sender"], stdin=subprocess.PIPE, env=env
        )


def settings_of(app: Any) -> Settings:
    """TOCSIN_* before the app's own configuration. Raises InvalidError, BeatError."""
    given: dict[str, object] = {}
    if "TOCSIN_DATABASE_URL" not in os.environ:
        url = app.conf.get("beatshard_database_url")
        if not url:
            raise BeatError(
                "no database: set TOCSIN_DATABASE_URL, or beatshard_database_url in the app's configuration"
            )
        given["database_url"] = url
    if "TOCSIN_BROKER_URL" not in os.environ:
        urls = app.conf.broker_write_url or app.conf.broker_url or "amqp://guest:guest@127.0.0.1:5672//"
        given["broker_url"] = urls if isinstance(urls, str) else ";".join(urls)
    return load(**given)


def _check_schema(settings: Settings) -> None:
    for shard in settings.shards.shards:
        try:
            with engine_for(shard.url).connect() as conn:
                revision = migrate.current(conn)
        except SQLAlchemyError as error:
            raise BeatError(
                f"shard {shard.name} cannot be reached: {str(error.__cause__ or error).strip()}"
            ) from error
        if revision != migrate.head():
            raise BeatError(
                f"shard {shard.name} is at schema {revision or 'none'}, needed is {migrate.head()}: "
                "run TOCSIN_DATABASE_URL=… tocsin db upgrade"
            )


def _zone(app: Any) -> str:
    zone = getattr(app.timezone, "key", None) or str(app.timezone)
    if "/" not in zone and zone not in ("UTC", "GMT"):
        raise EntryError(
            "*", f"the app's time zone {zone!r} has no IANA name", "set `timezone`, as in Europe/Berlin"
        )
    return str(zone)


def _app_name(app: Any) -> str:
    """What `celery -A` was given: the sender has to import the same app."""
    words = sys.argv
    for number, word in enumerate(words):
        for option in ("-A", "--app"):
            if word == option and number + 1 < len(words):
                return words[number + 1]
            if word.startswith(option + "="):
                return word.partition("=")[2]
        if word.startswith("-A") and len(word) > 2:
            return word[2:]
    return os.environ.get("CELERY_APP") or str(app.main or "")
