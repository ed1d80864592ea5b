"""The directory of an embedded server: kept or temporary, and used by one server at a time.

Protocol: the lock is an flock on a file in the directory. It is handed on to the server's own processes, so
it is free only when the last of them is gone, also after a SIGKILL of everything in between. The file names
the pid of the owner: a lock whose owner lives is an error at once; a lock whose owner is dead belongs to a
server that is just stopping and is waited for.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from tocsin.embedded.supervised import EmbeddedServerError

_POLL_SECONDS = 0.02


class Home:
    """A directory with a lock. Without a path it is a temporary one that goes away with the server."""

    def __init__(self, path: Path | None, *, name: str) -> None:
        self.temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix=f"tocsin-{name}-")) if path is None else path.resolve()
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.lock_fd = os.open(self.path / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)

    @property
    def removed_by_supervisor(self) -> Path | None:
        """What the supervisor is to remove at the end."""
        return self.path if self.temporary else None

    def lock(self, timeout: float) -> None:
        """Take the lock, waiting for a server that is just stopping."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                owner = os.pread(self.lock_fd, 20, 0).decode().strip()
                if time.monotonic() > deadline or (owner.isdigit() and _alive(int(owner))):
                    self.close()
                    raise EmbeddedServerError(
                        f"{self.path} is in use by process {owner or '?'}; stop it or take another directory"
                    ) from None
                time.sleep(_POLL_SECONDS)
        os.ftruncate(self.lock_fd, 0)
        os.pwrite(self.lock_fd, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        """Let go of the lock; the server's processes may still hold it."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1

    def discard(self) -> None:
        """Close, and remove the directory if it is temporary."""
        self.close()
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
