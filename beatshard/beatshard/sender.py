"""`python -m beatshard.sender`: a worker of tocsin that ends with the process that started it.

It watches its standard input: when that ends, the parent has gone or wants it to, and the worker drains as at a
SIGTERM. The worker itself is the module `tocsin_tasks`, run by its name.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _watch() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    # celery beat's own SIGINT goes to the whole terminal; the end of the pipe follows it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, name="parent", daemon=True).start()
    runpy.run_module("tocsin_tasks", run_name="__main__")
