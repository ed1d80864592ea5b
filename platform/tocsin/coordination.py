"""Which service says what node holds which partitions: the text of `TOCSIN_COORDINATOR`, taken apart.

`postgres`, or `zookeeper://host:port,host:port/chroot`. Nothing here talks to a service.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

POSTGRES = "postgres"
_SCHEME = "zookeeper://"
_HOST = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?")
_CHROOT = re.compile(r"(/[A-Za-z0-9_.-]+)+")
_PORT = 2181
_CHROOT_DEFAULT = "/tocsin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAddress:
    """An ensemble, and the node below which everything of one cluster lies."""

    hosts: tuple[str, ...]
    chroot: str


def parse_coordinator(text: str) -> ZooKeeperAddress | None:
    """The ensemble, or None for `postgres`. A port that is left out is 2181, a chroot `/tocsin`.

    Raises ValueError that says what the value should look like.
    """
    if text == POSTGRES:
        return None
    if not text.startswith(_SCHEME):
        raise ValueError("must be `postgres` or `zookeeper://host:port,host:port/chroot`")
    servers, slash, path = text.removeprefix(_SCHEME).partition("/")
    chroot = slash + path.rstrip("/") if path.rstrip("/") else _CHROOT_DEFAULT
    parts = chroot.split("/")
    if not _CHROOT.fullmatch(chroot) or "." in parts or ".." in parts or parts[1] == "zookeeper":
        raise ValueError(
            f"{chroot!r} cannot be a chroot; use a path such as /tocsin, outside of /zookeeper, "
            "of letters, digits, `.`, `_` and `-`"
        )
    return ZooKeeperAddress(hosts=tuple(_host(each.strip()) for each in servers.split(",")), chroot=chroot)


def _host(text: str) -> str:
    match = _HOST.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no server of ZooKeeper; write host:port, several separated by commas")
    port = int(match["port"] or _PORT)
    if not 0 < port < 65_536:
        raise ValueError(f"{port} is no port; a server of ZooKeeper is written host:port")
    return f"{match['host']}:{port}"


def parse_auth(text: str) -> tuple[str, str] | None:
    """The user and password of `user:password`; None when empty.

    Raises ValueError, without showing the value, when there is no colon, no user or no password.
    """
    if not text:
        return None
    user, colon, password = text.partition(":")
    if not colon or not user or not password:
        raise ValueError("must be `user:password`, or empty for an ensemble without authentication")
    return user, password


def check_zone(text: str) -> str:
    """The zone label as given. Raises ValueError when it is no label."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{0,63}", text):
        raise ValueError("a zone is at most 63 letters, digits, `.`, `_` or `-`, such as eu-west-1a")
    return text
