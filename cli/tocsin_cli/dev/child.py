"""One child of the dev server: `python -m tocsin_cli.dev.child api|beat|worker`.

Protocol: it imports what it needs first, while the databases still start; then it reads one line of JSON, the
`TOCSIN_*` variables, from standard input, and serves. Standard input stays open for as long as the dev server
lives; its end means that the dev server is gone, also after a SIGKILL, and the child ends itself: SIGTERM,
after ORPHAN_SECONDS SIGKILL for its whole group.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

ORPHAN_SECONDS = 2.0
Service = Callable[[dict[str, str]], int]


def main() -> int:
    """Serve until told to stop."""
    service = _SERVICES[sys.argv[1]]()
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    given = json.loads(line)
    os.environ.update({name: value for name, value in given.items() if name.startswith("TOCSIN_")})
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    logging.basicConfig(
        stream=sys.stderr, level="INFO", format="%(levelname)s %(name)s: %(message)s", force=True
    )
    return service(given)


def _end_with_parent() -> None:
    # Not sys.stdin: at the end of the interpreter its lock would be held by this blocked thread.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)


def _api() -> Service:
    from tocsin.settings import load
    from tocsin_api.app import run

    return lambda given: run(load(), given["host"], int(given["port"]))


def _beat() -> Service:
    from beatshard.node import run
    from tocsin.settings import load

    return lambda _: int(run(load()))


def _worker() -> Service:
    from tocsin.settings import load
    from tocsin_tasks.worker import run

    return lambda _: int(run(load()))


_SERVICES: dict[str, Callable[[], Service]] = {"api": _api, "beat": _beat, "worker": _worker}

if __name__ == "__main__":
    sys.exit(main())
