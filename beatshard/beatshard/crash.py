"""Named crash points: places where a test kills or stops this process, and nothing else happens.

`TOCSIN_CRASH_AT=after-commit-before-publish:3` dies at the third pass of that point;
`TOCSIN_CRASH_AT=before-firing:3:STOP` is stopped there, as by SIGSTOP, and goes on with SIGCONT.
"""

from __future__ import annotations

import os
import signal
import threading

POINTS = (
    "before-firing",
    "after-commit-before-publish",
    "after-publish-before-confirm",
    "after-confirm-before-watermark",
    # of `tocsin shard move`: before and after the copy, before and after the switch
    "move-past-copied",
    "move-fenced",
    "move-copied",
    "move-switched",
    "move-opened",
)

_lock = threading.Lock()
_name, _nth, _how = [*os.environ.get("TOCSIN_CRASH_AT", "").split(":"), "", ""][:3]
_left = int(_nth or 1)


def point(name: str) -> None:
    """Die here when the environment says so."""
    global _left
    if name != _name:
        return
    with _lock:
        _left -= 1
        if _left == 0:
            # To this thread: a signal to the process may be taken by another one, and until that one runs, on a busy
            # machine milliseconds later, this thread would go on past the point.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP if _how == "STOP" else signal.SIGKILL)
