"""Where a redirect leads, and what may go there. Pure.

What a request carries beside its method and URL belongs to the origin (scheme, host, port) that the job names.
Once a redirect has left it, the job's headers, the signature and the callback's token stay behind, also on the
way back, and a redirect that would take a body along is not followed. Nor is one from https to http.
"""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from tocsin.model.target_url import LONGEST_URL, url_fault

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One request on the way. `trusted`: all hops so far were of the origin that the job names."""

    method: str
    url: str
    with_body: bool = True
    trusted: bool = True


def next_hop(hop: Hop, status: int, location: str, *, has_body: bool) -> Hop | str:
    """The request that this redirect asks for, or why it is not made."""
    try:
        url = str(httpx.URL(hop.url).join(location).copy_with(fragment=None))
    except (httpx.InvalidURL, ValueError):
        return "its Location cannot be read"
    fault = url_fault(url) if len(url) <= LONGEST_URL else None
    if fault is not None or len(url) > LONGEST_URL:
        return f"its Location cannot be called: {fault.detail if fault else 'the URL is too long'}"
    method = _method(hop.method, status)
    with_body = hop.with_body and method == hop.method
    same = origin(url) == origin(hop.url)
    if not same and with_body and has_body:
        return "it would take the request's body to another origin"
    if hop.url.startswith("https:") and url.startswith("http:"):
        return "it leads from https to http"
    return Hop(method=method, url=url, with_body=with_body, trusted=hop.trusted and same)


def _method(method: str, status: int) -> str:
    """As browsers do (Fetch Standard, "HTTP-redirect fetch")."""
    if status == 303 and method not in ("GET", "HEAD"):
        return "GET"
    return "GET" if status in (301, 302) and method == "POST" else method


def origin(text: str) -> tuple[str, bytes, int]:
    """Scheme, host and port of a URL."""
    url = httpx.URL(text)
    return url.scheme, url.raw_host, url.port or _PORTS[url.scheme]
