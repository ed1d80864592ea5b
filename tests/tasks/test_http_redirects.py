"""Redirects: off unless asked for, bounded, and without what belongs to the first origin anywhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.dns import NameServer
from support.receiver import Receiver
from support.trap import Trap
from tasks.attempt import attempt
from tasks.spellings import REFUSED
from tasks.test_guard import resolver
from tocsin import clock
from tocsin.model.status import Reason
from tocsin.settings import Settings
from tocsin.signature import verify
from tocsin_tasks.http_redirects import Hop, next_hop
from tocsin_tasks.http_runner import HttpRunner
from tocsin_tasks.outcome import Outcome

SECRETS = {"Authorization": "Bearer s3cret", "Cookie": "sid=s3cret", "X-Api-Key": "s3cret"}


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Receiver]:
    """Another origin."""
    with Receiver(tmp_path / "other.jsonl") as running:
        yield running


def call(url: str, *, allow: str = "127.0.0.0/8", **http: Any) -> Outcome:
    async def main() -> Outcome:
        runner = HttpRunner(Settings(http_allow=allow, signing_key="k" * 16))
        what = attempt({"http": {"url": url, "followRedirects": True, **http}})
        try:
            return await runner.run(what, clock.monotonic() + what.timeout)
        finally:
            await runner.close()

    return asyncio.run(main())


def redirect(receiver: Receiver, to: str, status: int = 302) -> str:
    return f"{receiver.url}/redirect?status={status}&to={quote(to, safe='')}"


def test_redirects_are_not_followed_unless_the_job_says_so(receiver: Receiver) -> None:
    outcome = call(redirect(receiver, "/ok"), followRedirects=False)
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.HTTP_STATUS, 302)
    assert len(receiver.requests()) == 1


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"), ("POST", 307, "POST"), ("POST", 308, "POST"),
        ("PUT", 302, "PUT"), ("PUT", 303, "GET"), ("HEAD", 303, "HEAD"), ("GET", 308, "GET"),
    ],
)  # fmt: skip
def test_within_the_origin_everything_goes_along(
    receiver: Receiver, method: str, status: int, then: str
) -> None:
    body = None if method in ("GET", "HEAD") else "hello"
    outcome = call(redirect(receiver, "/ok?a=1", status), method=method, headers=SECRETS, body=body)
    assert (outcome.failure, outcome.http_status) == (None, 200)
    first, second = receiver.requests()
    assert (second.method, second.path, second.body) == (
        then,
        "/ok?a=1",
        (body or "") if then == method else "",
    )
    for name, value in SECRETS.items():
        assert second.headers[name.lower()] == value
    assert second.key == first.key
    signed = {"method": second.method, "target": second.path, "key": second.key, "body": second.body.encode()}
    verify([b"k" * 16], second.headers["tocsin-signature"], **signed)


def test_to_another_origin_goes_nothing_of_the_job_s(receiver: Receiver, other: Receiver) -> None:
    outcome = call(
        redirect(receiver, f"{other.url}/ok", 303),
        headers=SECRETS,
        json={"password": "s3cret"},
        completion="callback",
    )
    assert (outcome.failure, outcome.http_status) == (None, 200)
    (request,) = other.requests()
    assert (request.method, request.body) == ("GET", "")
    assert "s3cret" not in str(request.headers)
    mine = {"tocsin-signature", "tocsin-callback-token", "tocsin-callback-url"}
    assert mine <= receiver.requests()[0].headers.keys()
    assert not mine & request.headers.keys()
    assert request.key == receiver.requests()[0].key  # which run it is may be known
    assert request.headers["host"] == other.url.removeprefix("http://")


def test_nor_does_it_follow_from_there(receiver: Receiver, other: Receiver) -> None:
    """A redirect within the other origin must not bring back what the first one took away."""
    assert call(redirect(receiver, redirect(other, "/ok")), headers=SECRETS, method="GET").http_status == 200
    assert [request.path.partition("?")[0] for request in other.requests()] == ["/redirect", "/ok"]
    assert "s3cret" not in str([request.headers for request in other.requests()])


def test_on_the_way_back_it_is_not_given_out_again(receiver: Receiver, other: Receiver) -> None:
    """A target elsewhere could else choose the path that the credentials are sent to."""
    back = redirect(other, f"{receiver.url}/ok")
    assert call(redirect(receiver, back), headers=SECRETS, method="GET").http_status == 200
    first, last = receiver.requests()
    assert "s3cret" in str(first.headers)
    assert "s3cret" not in str(last.headers)


@pytest.mark.parametrize("status", [307, 308])
def test_a_body_is_not_taken_to_another_origin(receiver: Receiver, other: Receiver, status: int) -> None:
    outcome = call(redirect(receiver, f"{other.url}/ok", status), body="s3cret")
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.HTTP_STATUS, status)
    assert "body to another origin" in (outcome.error or "")
    assert other.requests() == []
    assert call(redirect(receiver, f"{other.url}/ok", status), method="PUT").http_status == 200


def test_redirects_are_counted(receiver: Receiver) -> None:
    twice = redirect(receiver, redirect(receiver, "/ok"))
    assert call(twice, maxRedirects=2, method="GET").http_status == 200
    outcome = call(twice, maxRedirects=1, method="GET")
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.http_status) == (Reason.HTTP_STATUS, 302)
    assert "the limit" in (outcome.error or "")
    loop = call(redirect(receiver, f"{receiver.url}/redirect"), method="GET", maxRedirects=20)
    assert loop.failure is not None


def test_no_redirect_leads_past_the_guard(receiver: Receiver) -> None:
    """The redirecting target may be called, by its name; nothing else on loopback may."""
    first = receiver.url.replace("127.0.0.1", "first.test")

    async def main() -> None:
        with NameServer({"first.test": [["127.0.0.1"]]}) as server:
            runner = HttpRunner(Settings(http_allow="first.test"), resolver(server))
            async with Trap() as trap:
                for host in REFUSED:
                    to = f"{first}/redirect?to={quote(f'http://{host}:{trap.port}/', safe='')}"
                    what = attempt({"http": {"url": to, "method": "GET", "followRedirects": True}})
                    outcome = await runner.run(what, clock.monotonic() + what.timeout)
                    assert outcome.failure is not None, host
                    unreadable = "not followed: its Location" in (outcome.error or "")
                    assert outcome.failure.reason is Reason.TARGET_REFUSED or unreadable, f"{host}: {outcome}"
                assert trap.connections == 0
            await runner.close()

    asyncio.run(main())
    assert len(receiver.requests()) == len(REFUSED)  # each redirect was met


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/b?x#frag", "https://a.example/b?x"),
        ("c", "https://a.example/dir/c"),
        ("//b.example/x", "https://b.example/x"),
        ("https://A.example:443/y", "https://a.example/y"),
        ("", "https://a.example/dir/page"),
        ("http://a.example/", None),
        ("ftp://a.example/", None),
        ("file:///etc/passwd", None),
        ("https://user:pw@b.example/", None),
        ("https://0x7f.1/", None),
        ("https://[::1%25lo]/", None),
        ("https://b.example:99999/", None),
        ("https://" + "a" * 3000, None),
        ("https://b.example/\x00", None),
    ],
)
def test_where_a_redirect_leads(location: str, expected: str | None) -> None:
    hop = next_hop(Hop(method="GET", url="https://a.example/dir/page"), 302, location, has_body=False)
    if expected is None:
        assert isinstance(hop, str)
    else:
        assert isinstance(hop, Hop)
        assert hop.url == expected
        assert hop.trusted is expected.startswith("https://a.example/")
