"""The one line with which a team's Celery app tells tocsin how its tasks end: `tocsin_tasks.track(app)`.

A job with `completion: callback` sends its task with two headers: the address of its run and a one-time token. The
hook, in the team's workers, posts there once the task has ended: success, failure (class and text of the error), or
revoked, which an expired task is too. A retry of the task's own says nothing: Celery keeps the headers on the message
it sends again, and the last try reports. A pool process that dies is reported by the worker that had it, from what it
remembers of the messages it received, the newest MEMORY of them.

Weaknesses: the report is made in the task's process and holds it for up to TRIES times SECONDS when the API is away;
a report that cannot be made is logged, and the run ends by its timeout. A task that raises `Ignore` or `Reject` never
says how it ended, nor does one that expires in a RabbitMQ queue, since the broker itself drops it. A task
killed by Celery's hard time limit is reported only where Celery sends its failure signal.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from typing import Any

URL_HEADER = "tocsin-callback-url"
TOKEN_HEADER = "tocsin-callback-token"
MEMORY = 10_000  # messages
TRIES = 3
SECONDS = 5.0  # for one try
ERROR_CHARS = 500

logger = logging.getLogger(__name__)


class Tracker:
    """The hook of one app; Celery's signals hold it."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._received: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def connect(self) -> None:
        """Listen to Celery's signals, in this process and in those it forks."""
        from celery import signals

        signals.task_received.connect(self.received, weak=False)
        signals.task_success.connect(self.succeeded, weak=False)
        signals.task_failure.connect(self.failed, weak=False)
        signals.task_revoked.connect(self.revoked, weak=False)

    def received(self, request: Any = None, **_: Any) -> None:
        """Remember where to report, for the case that the task's process cannot."""
        found = _address(getattr(request, "request_dict", None) or {})
        if found:
            self._received[request.id] = found
            self._received.move_to_end(request.id)
            while len(self._received) > MEMORY:
                self._received.popitem(last=False)

    def succeeded(self, sender: Any = None, **_: Any) -> None:
        """The task returned."""
        self._report(sender, sender.request.id, sender.request, {"status": "succeeded"})

    def failed(self, sender: Any = None, task_id: str = "", exception: Any = None, **_: Any) -> None:
        """The task raised, its own retries are used up, or its process died."""
        error = f"{type(exception).__name__}: {exception}"[:ERROR_CHARS]
        self._report(sender, task_id, sender.request, {"status": "failed", "error": error})

    def revoked(self, sender: Any = None, request: Any = None, expired: bool = False, **_: Any) -> None:
        """Somebody revoked the task, or its time to begin had passed. Trying again would not help."""
        error = "the task expired before it began" if expired else "the task was revoked"
        body = {"status": "failed", "error": error, "retry": False}
        self._report(sender, request.id, request, body)

    def _report(self, task: Any, task_id: str, request: Any, body: dict[str, Any]) -> None:
        if task is not None and getattr(task, "app", None) is not self._app:
            return
        here = _address(getattr(request, "headers", None) or {})
        known = self._received.pop(task_id, None)
        address = here or known
        if address:
            post(address[URL_HEADER], address[TOKEN_HEADER], body)


def track(app: Any) -> Any:
    """Tell tocsin how the tasks of this app end that tocsin has sent with `completion: callback`.

    One line where the app is made; it may be called again. Returns the app.
    """
    if getattr(app, "_tocsin_tracker", None) is None:
        app._tocsin_tracker = Tracker(app)
        app._tocsin_tracker.connect()
    return app


def post(url: str, token: str, body: dict[str, Any]) -> bool:
    """Say it, with TRIES tries while the API is away; False when it was not heard or not wanted. Raises nothing."""
    for number in range(TRIES):
        try:
            request = urllib.request.Request(
                url,
                data=json.dumps(body).encode(),
                headers={"Content-Type": "application/json", "Tocsin-Callback-Token": token},
                method="POST",
            )
            with urllib.request.urlopen(request, timeout=SECONDS):
                return True
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                logger.warning("tocsin does not wait for this report: %s answered %d", url, error.code)
                return False
            words = f"it answered {error.code}"
        except (OSError, ValueError) as error:
            words = f"{type(error).__name__}: {error}"
        if number + 1 < TRIES:
            time.sleep(2.0**number)
    logger.error("the end of a task was not reported to %s: %s; its run will time out", url, words)
    return False


def _address(headers: dict[str, Any]) -> dict[str, Any] | None:
    """The two headers, when both are there."""
    found = {name: headers.get(name) for name in (URL_HEADER, TOKEN_HEADER)}
    return found if all(isinstance(value, str) for value in found.values()) else None
