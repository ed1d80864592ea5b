"""Which IP addresses are public, and how a host in a URL may be spelled. Pure.

An address is public when IANA's registries of special-purpose addresses (RFC 6890 and its updates) do not
name its range. Of IPv6 only 2000::/3 has been given out, so everything else counts as reserved. An address
that carries an IPv4 address inside (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) is not
public either: what it reaches is the inner one, by way of somebody else's gateway.

A host in a URL is a name, an IPv4 address as four decimal numbers, or an IPv6 address in brackets. Other
spellings of an address (`0x7f.1`, `2130706433`, `127.1`, `127.0.0.1.`, `①②⑦.0.0.1`, a zone) mean different
things to different readers, and are refused.

Weakness: the ranges are a table in this file; a range that IANA sets aside later is not in it. Public
addresses that lead into somebody's own network by routing are the operator's to block.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a carrier (CGNAT)",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "cloud metadata",
    "169.254.0.0/16": "link-local, where clouds keep their metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_SPECIAL_V6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "::/96": "IPv4 inside IPv6",
    "::ffff:0:0/96": "IPv4 inside IPv6",
    "::ffff:0:0:0/96": "IPv4 inside IPv6",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "NAT64",
    "100::/64": "discard",
    "2001::/32": "Teredo",
    "2001::/23": "reserved",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_SPECIAL: dict[int, list[tuple[Network, str]]] = {
    4: [(IPv4Network(text), kind) for text, kind in _SPECIAL_V4.items()],
    6: [(IPv6Network(text), kind) for text, kind in _SPECIAL_V6.items()],
}
_GIVEN_OUT = IPv6Network("2000::/3")
_LOW_32 = (1 << 32) - 1
_CARRIES_LAST = [
    IPv6Network(text)
    for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)

_DOTS = re.compile("[\u3002\uff0e\uff61]")  # what IDNA reads as a dot
_NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*")
_NAME = re.compile(r"[^\x00-\x20\x7f!\"#$%&'()*+,/:;<=>?@\[\\\]^`{|}~]+")


def special(address: Address) -> str | None:
    """What kind of address this is when it is not public; None when it is."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "bound to an interface"
    for network, kind in _SPECIAL[address.version]:
        if address in network:
            return kind
    if isinstance(address, IPv6Address):
        if address not in _GIVEN_OUT:
            return "reserved"
        if _isatap(address) is not None:
            return "ISATAP"
    return None


def inner(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address carries."""
    if not isinstance(address, IPv6Address) or int(address) <= 1:  # `::` and `::1` carry none
        return []
    if address.teredo is not None:
        return list(address.teredo)
    if address.sixtofour is not None:
        return [address.sixtofour]
    isatap = _isatap(address)
    if isatap is not None:
        return [isatap]
    if any(address in network for network in _CARRIES_LAST):
        return [IPv4Address(int(address) & _LOW_32)]
    return []


def _isatap(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & _LOW_32) if int(address) >> 32 & _LOW_32 in _ISATAP else None


def plain(host: str) -> Address | None:
    """The address that a host is, in its plain spelling; None for a name. No brackets."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def misspelled(host: str) -> str | None:
    """What is wrong with the spelling of a URL's host (as `urlsplit` gives it); None when nothing is."""
    if ":" in host:
        address = plain(host)
        if address is None or "%" in host:
            return "the host is no IPv6 address without a zone"
        return None
    folded = _DOTS.sub(".", unicodedata.normalize("NFKC", host)).lower()
    if _ends_in_number(folded):
        return None if _is_ipv4(host) else "the host is a number, and no IPv4 address in its plain spelling"
    if not _NAME.fullmatch(folded) or ".." in folded or folded.startswith("."):
        return "the host has a character that no name has"
    if folded.isascii() and not host.isascii():
        return f"the host looks like {folded[:80]} and is spelled otherwise"
    return None


def _ends_in_number(host: str) -> bool:
    """Whether resolvers may take the host for an IPv4 address (URL Standard, "ends in a number")."""
    last = host.removesuffix(".").rpartition(".")[2]
    return _NUMBER.fullmatch(last) is not None


def _is_ipv4(host: str) -> bool:
    return host.isascii() and isinstance(plain(host), IPv4Address)
