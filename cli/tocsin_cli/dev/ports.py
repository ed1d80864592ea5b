"""Loopback addresses and free ports.

Weakness: a port is free when it is looked at; somebody may take it before the server binds it. The server
then does not start, and says so.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, usage

_TRIES = 50


def loopback(host: str) -> str:
    """The loopback address that `host` names. Raises Failure: the dev server has no authentication."""
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address).is_loopback:
            return address
    raise usage(
        f"--host {host} is not a loopback address, and `tocsin dev` has no authentication",
        "leave --host out; for other machines run `tocsin api`, `tocsin beat` and `tocsin worker`",
    )


def first_free(host: str, port: int) -> int:
    """`port`, or the next one that is free."""
    for candidate in range(port, min(port + _TRIES, 65_536)):
        if _free(host, candidate):
            return candidate
    raise Failure(
        f"no port from {port} to {port + _TRIES - 1} is free on {host}",
        exit_code=ExitCode.UNREACHABLE,
        code="no_port",
        fix="give another --port",
    )


def _free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: TIME_WAIT is free
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def url(host: str, port: int) -> str:
    """The address as a URL."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
