"""A Celery app with one task that does nothing but add a byte to a file: the file's size is how many were run."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("peer_celery", broker=os.environ["PEER_BROKER"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
_FILE = os.open(os.environ["PEER_FILE"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)


@app.task(name="noop")
def noop() -> None:
    """One byte."""
    os.write(_FILE, b".")
