"""The operator's policy for targets, and which addresses are public."""

from __future__ import annotations

import ipaddress

import pytest
from pydantic import ValidationError

from tasks.spellings import REFUSED
from tocsin.addresses import misspelled, special
from tocsin.egress import LOOPBACK, Egress, parse_egress
from tocsin.errors import InvalidError
from tocsin.model.task import HttpTask
from tocsin.settings import load

PUBLIC = (
    "8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
    "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2001:200::1", "2001:4860::8888",
    "2400:cb00::1", "2620:fe::fe", "3ffe::1",
)  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str) -> None:
    assert special(ipaddress.ip_address(text)) is None


def test_the_standard_library_knows_no_private_address_that_we_take_for_public() -> None:
    """Its table is made from the same registries; ours is stricter."""
    for number in range(0, 1 << 32, 65_521 * 31):
        address = ipaddress.IPv4Address(number)
        assert (
            special(address) is not None
            or address.is_global
            or address in ipaddress.ip_network("192.31.196.0/24")
        )
    for number in range(0, 1 << 128, (1 << 111) + 12_345_678_901):
        wide = ipaddress.IPv6Address(number)
        assert special(wide) is not None or wide.is_global


def refusal(url: str) -> dict[str, str] | None:
    """What the API says of a job with this URL; None when it takes it."""
    try:
        HttpTask.model_validate({"url": url})
    except ValidationError as error:
        (only,) = error.errors()
        return dict(only["ctx"])
    refused = Egress().refused_url(url)
    return refused and dict(zip(("detail", "fix"), refused, strict=True))


@pytest.mark.parametrize("host", REFUSED)
def test_the_api_s_side_refuses_every_spelling_at_creation(host: str) -> None:
    """Without a look-up: by the document, or by the policy on what the URL says."""
    url = f"http://{host}:8080/path"
    found = refusal(url)
    assert found is not None
    assert found["fix"]


@pytest.mark.parametrize(
    "host",
    [
        *PUBLIC[:19],
        "example.com",
        "example.com.",
        "münchen.example",
        "a_b.internal",
        "1password.com",
        "x.1a",
        "e0x1",
    ],
)
def test_names_and_plain_public_addresses_pass(host: str) -> None:
    assert misspelled(host) is None
    assert Egress().refused_url(HttpTask.model_validate({"url": f"https://{host}/"}).url) is None


@pytest.mark.parametrize(
    ("policy", "address", "host", "passes"),
    [
        ("", "10.1.2.3", "", False),
        ("10.0.0.0/8", "10.1.2.3", "any.example", True),
        ("10.1.0.0/16", "10.2.0.0", "", False),
        (LOOPBACK, "127.9.9.9", "", True),
        (LOOPBACK, "::1", "", True),
        (LOOPBACK, "::ffff:127.0.0.1", "", False),
        (LOOPBACK, "0.0.0.0", "", False),
        ("fd00::/8", "fd00:ec2::254", "", True),
        ("billing.internal", "10.1.2.3", "billing.internal", True),
        ("billing.internal", "10.1.2.3", "BILLING.internal.", True),
        ("billing.internal", "10.1.2.3", "x.billing.internal", False),
        ("*.internal", "10.1.2.3", "a.b.internal", True),
        ("*.internal", "10.1.2.3", "internal", False),
        ("*.internal", "10.1.2.3", "notinternal", False),
        ("*.internal", "10.1.2.3", "a.internal.evil.example", False),
        ("*.internal", "169.254.169.254", "metadata.internal", False),
        ("*.internal", "::ffff:169.254.169.254", "metadata.internal", False),
        ("*.internal", "fd00:ec2::254", "metadata.internal", False),
        ("*.internal, 169.254.169.254", "169.254.169.254", "metadata.internal", True),
        # A range that carries IPv4 opens no inner address that is not open by itself.
        ("64:ff9b::/96", "64:ff9b::8.8.8.8", "", True),
        ("64:ff9b::/96", "64:ff9b::10.0.0.1", "", False),
        ("64:ff9b::/96 10.0.0.0/8", "64:ff9b::10.0.0.1", "", True),
        ("2002::/16", "2002:7f00:1::", "", False),
        ("::/0", "2001:0:7f00:1::", "", False),
        ("0.0.0.0/0", "169.254.169.254", "", True),
    ],
)
def test_the_policy(policy: str, address: str, host: str, passes: bool) -> None:
    refusal = parse_egress(policy).refusal(ipaddress.ip_address(address), host)
    assert (refusal is None) is passes


@pytest.mark.parametrize(
    "text", ["10.0.0.1/8", "10.0.0.0/33", "1.2.3", "http://x/", "*", "*.*.x", "a b;c", "fe80::/200"]
)
def test_a_bad_policy_is_refused_at_start(text: str) -> None:
    with pytest.raises(ValueError, match="write 10"):
        parse_egress(text)
    with pytest.raises(InvalidError, match="TOCSIN_"):
        load(http_allow=text)
