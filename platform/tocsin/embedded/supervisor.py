"""A small process between tocsin and a server it started: the server never outlives tocsin.

Protocol: run as a script with one JSON argument (see `Spec`). It prints the server's pid on a line of its
own, then waits for the first of: end of file on standard input, the end of the parent process, SIGTERM, or
the end of the server. It then stops the server with the given signals in turn, removes the directory it was
told to remove and exits with the server's code.

It runs in a session of its own, so a terminal's Ctrl-C reaches the parent only. It imports nothing but the
standard library, so that it starts in about 20 ms without site-packages (`python -I -S`).

Weakness: only Linux can tie the server to the supervisor (PR_SET_PDEATHSIG). Elsewhere a supervisor that is
killed with SIGKILL leaves its server running until the next start on the same directory finds it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
from typing import NoReturn, TypedDict

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_SET_SECUREBITS = 28
_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_WAIT_SECONDS = 10


class Spec(TypedDict):
    """What to run and how to end it."""

    command: list[str]
    log: str  # the server's stdout and stderr are appended here
    stop: list[tuple[str, float]]  # signal name, seconds to wait for the end after it; SIGKILL comes last
    death_signal: str  # what the kernel sends to the server when the supervisor dies
    run_as: tuple[int, int] | None  # uid and gid, for a server that refuses to run as root
    parent: int
    remove: str | None  # a directory to remove when the server is no longer wanted
    keep_fds: list[int]  # handed on to the server: a lock that lasts as long as any of its processes


def main() -> NoReturn:
    """Run the server of the specification until it ends or nobody needs it any more."""
    spec: Spec = json.loads(sys.argv[1])
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(waker)
    server = _spawn(spec)
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    unwanted = _wait_for_the_end(server, wake, spec["parent"])
    code = _stop(server, spec["stop"])
    if unwanted and spec["remove"]:
        shutil.rmtree(spec["remove"], ignore_errors=True)
    sys.exit(code if code >= 0 else 128 - code)


def _spawn(spec: Spec) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if spec["run_as"] is not None:
            become(*spec["run_as"])
        if sys.platform == "linux":  # after the change of user, which clears it
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, getattr(signal, spec["death_signal"]), 0, 0, 0)

    with open(spec["log"], "ab") as log:
        return subprocess.Popen(
            spec["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            pass_fds=spec["keep_fds"],
            preexec_fn=prepare,  # noqa: PLW1509 - the supervisor has one thread
        )


def become(uid: int, gid: int) -> None:
    """Give up root for `uid`, but keep the right to pass directories that only root may enter.

    PostgreSQL refuses the user ID 0. Interpreters and data often lie below a home directory of mode 0700, so
    the process keeps CAP_DAC_OVERRIDE where the kernel grants it. No user is added and no mode is changed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    on_linux = sys.platform == "linux"
    if on_linux:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
        # Without this, access(2) ignores the capability, and initdb asks it whether it may run postgres.
        libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if on_linux:
        bit = 1 << _CAP_DAC_OVERRIDE
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        data = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
        if libc.capset(header, data) == 0:
            libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)


def _wait_for_the_end(server: subprocess.Popen[bytes], wake: int, parent: int) -> bool:
    """True when nobody needs the server any more, False when it ended by itself."""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ, "stop")
        selector.register(wake, selectors.EVENT_READ, "signal")
        if sys.platform == "linux":  # a forked sibling may hold our standard input open; the pid cannot lie
            with contextlib.suppress(OSError):
                selector.register(os.pidfd_open(parent), selectors.EVENT_READ, "stop")
        while os.getppid() == parent:
            keys = {key.data for key, _ in selector.select()}
            if "stop" in keys or signal.SIGTERM in os.read(wake, 1024):
                return True
            if server.poll() is not None:
                return False
    return True


def _stop(server: subprocess.Popen[bytes], steps: list[tuple[str, float]]) -> int:
    for name, seconds in steps:
        if server.poll() is not None:
            break
        server.send_signal(getattr(signal, name))
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)
    return server.wait(_LAST_WAIT_SECONDS)


if __name__ == "__main__":
    main()
