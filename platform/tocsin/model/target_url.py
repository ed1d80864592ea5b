"""What a URL must be to be called by an HTTP task, wherever it comes from. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from tocsin.addresses import misspelled

LONGEST_URL = 2083


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlFault:
    """Why a URL cannot be called, and what to change."""

    code: str
    detail: str
    fix: str


def url_fault(url: str) -> UrlFault | None:
    """None for an absolute http or https URL without credentials whose host is spelled plainly."""
    fix = "give an absolute URL such as https://host/path"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return UrlFault(code="http_url", detail="the URL cannot be read", fix=fix)
    if parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"[\s\x00-\x1f\x7f]", url):
        return UrlFault(code="http_url", detail="the URL is not an absolute http or https URL", fix=fix)
    if parts.username is not None or parts.password is not None:
        return UrlFault(
            code="http_url_credentials",
            detail="the URL carries credentials",
            fix="send them in an Authorization header",
        )
    bracketed = "[" in parts.netloc and ":" not in parts.hostname
    wrong = "the brackets hold no IPv6 address" if bracketed else misspelled(parts.hostname)
    if wrong is not None:
        spelling = "write a name, an IPv4 address as 192.0.2.1 or an IPv6 address as [2001:db8::1]"
        return UrlFault(code="http_url_host", detail=wrong, fix=spelling)
    return None
