"""Which targets HTTP tasks may call: public addresses, and what the operator opens (`TOCSIN_HTTP_ALLOW`). Pure.

An entry is a range (`10.20.0.0/16`, `127.0.0.1`) or a name (`billing.internal`, `*.svc.cluster.local`). A range
opens its addresses under whatever name. A name opens whatever addresses it has, except those where clouds
keep their metadata: these need their range, so that nobody who may register a name under a pattern gets at
them. A range of IPv6 that carries IPv4 opens only those whose inner address is public or open too.

The worker asks about each address it is about to connect to; that is the guard. The API asks about addresses
that are written out in a URL, only so that a job that could never run is refused when it is created.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from tocsin.addresses import Address, Network, inner, plain, special

_METADATA = [
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",
        "168.63.129.16/32",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "fe80::/10",
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
    )
]
_PATTERN = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
LOOPBACK = "127.0.0.0/8,::1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """The operator's policy. Without entries: public addresses only."""

    networks: tuple[Network, ...] = ()
    names: tuple[str, ...] = ()

    def refusal(self, address: Address, host: str = "") -> str | None:
        """What kind of address this is when it may not be called under the name `host`; else None."""
        kind = special(address)
        if kind is None or self._open(address) or (self._named(host) and not _metadata(address)):
            return None
        return kind

    def refused_url(self, url: str) -> tuple[str, str] | None:
        """Why a valid URL can never be called, and what to change; None when that is not known yet."""
        host = (urlsplit(url).hostname or "").removesuffix(".")
        local = host == "localhost" or host.endswith(".localhost")
        address = plain("127.0.0.1" if local else host)
        kind = self.refusal(address, host) if address is not None else None
        if kind is None:
            return None
        fix = "call a public address, or have the operator open this one with TOCSIN_HTTP_ALLOW"
        return f"{host} is not a public address ({kind})", fix

    def _open(self, address: Address) -> bool:
        if not any(address in network for network in self.networks):
            return False
        return all(special(inside) is None or self._open(inside) for inside in inner(address))

    def _named(self, host: str) -> bool:
        host = host.lower().removesuffix(".")
        return any(host.endswith(name[1:]) if name[0] == "*" else host == name for name in self.names)


def _metadata(address: Address) -> bool:
    return any(candidate in network for candidate in (address, *inner(address)) for network in _METADATA)


def parse_egress(text: str) -> Egress:
    """Read `TOCSIN_HTTP_ALLOW`: entries separated by commas or spaces. Raises ValueError."""
    networks: list[Network] = []
    names: list[str] = []
    for entry in text.replace(",", " ").split():
        if re.fullmatch(r"[0-9.]+(/.*)?|.*:.*", entry):
            networks.append(_network(entry))
        elif _PATTERN.fullmatch(entry.lower().removesuffix(".")):
            names.append(entry.lower().removesuffix("."))
        else:
            raise ValueError(f"{entry[:80]!r} is no range and no name; write 10.0.0.0/8, host or *.domain")
    return Egress(networks=tuple(networks), names=tuple(names))


def _network(entry: str) -> Network:
    try:
        return ipaddress.ip_network(entry)
    except ValueError as error:
        raise ValueError(f"{entry[:80]!r} is no range of addresses ({error}); write 10.0.0.0/8") from None
