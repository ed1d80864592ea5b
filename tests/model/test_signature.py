"""Signatures: any change is noticed, keys can be changed without a gap, and the page's own code agrees."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin import clock
from tocsin.errors import InvalidError
from tocsin.settings import load
from tocsin.signature import WINDOW, BadSignatureError, parse_keys, sign, verify

KEY, OTHER = b"k" * 32, b"o" * 32
NOW = 1_772_366_400
CALL: dict[str, Any] = {"method": "POST", "target": "/close?a=1", "key": "run_1", "body": b'{"a": 1}'}
PAGE = Path(__file__).parents[2] / "docs/http-jobs.md"


def good(header: str | None, *, keys: tuple[bytes, ...] = (KEY,), now: float = NOW, **changed: Any) -> bool:
    try:
        verify(keys, header, now=now, **{**CALL, **changed})
    except BadSignatureError:
        return False
    return True


def test_a_known_signature() -> None:
    """Held to the letter, as `openssl dgst -sha256 -hmac` makes it: receivers have their own code for it."""
    expected = "t=1772366400,v1=8edd7c67a116fd8026f9b0fe051650fcbe3cb68c7439fe4f50418b511bca8440"
    assert sign([KEY], second=NOW, **CALL) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "PUT"}, {"target": "/close?a=2"}, {"target": "/close"}, {"key": "run_2"}, {"body": b'{"a": 2}'}, {"body": b""},
        {"keys": (OTHER,)}, {"keys": ()}, {"now": NOW + WINDOW + 1}, {"now": NOW - WINDOW - 1},
        # Parts that are shifted make another message.
        {"target": "/close?a=1\nrun_1", "key": ""}, {"key": 'run_1\n{"a": 1}', "body": b""},
    ],
)  # fmt: skip
def test_whatever_is_changed_is_noticed(changed: dict[str, Any]) -> None:
    header = sign([KEY], second=NOW, **CALL)
    assert good(header)
    assert not good(header, **changed)


@pytest.mark.parametrize("now", [NOW, NOW + WINDOW, NOW - WINDOW, NOW + 0.5])
def test_within_the_window_it_holds(now: float) -> None:
    assert good(sign([KEY], second=NOW, **CALL), now=now)


def test_keys_change_without_a_gap() -> None:
    both = sign([OTHER, KEY], second=NOW, **CALL)
    assert [good(both, keys=keys) for keys in ((KEY,), (OTHER,), (b"x" * 32,), (b"x" * 32, KEY))] == [
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "header",
    [None, "", "t=1", "v1=" + "0" * 64, f"t={NOW},v1=", f"t={NOW},v1={'0' * 63}", f"t={NOW},v1={'G' * 64}", f"t={'9' * 5000},v1={'0' * 64}",
     f"t={NOW},v1={'é' * 64}", f"t=-{NOW},v1={'0' * 64}", f" t={NOW},v1={'0' * 64}", f"t={NOW},v1={'0' * 64}\n"],
)  # fmt: skip
def test_nonsense_is_no_signature(header: str | None) -> None:
    assert not good(header)


def test_the_time_of_the_signature_is_signed() -> None:
    header = sign([KEY], second=NOW - 1000, **CALL).replace(str(NOW - 1000), str(NOW))
    assert not good(header)


def test_signatures_beyond_the_limit_are_not_looked_at() -> None:
    real = sign([KEY], second=NOW, **CALL).partition(",")[2]
    filler = ",".join([f"v1={'0' * 64}"] * 8)
    assert not good(f"t={NOW},{filler},{real}")


def snippet() -> Callable[..., bool]:
    """The code for receivers in docs/http-jobs.md."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    names["KEYS"][:] = [KEY]
    return names["from_tocsin"]  # type: ignore[no-any-return]


def test_the_page_s_code_for_receivers_agrees() -> None:
    check, now = snippet(), int(clock.now().timestamp())
    call = ("POST", "/close?a=1", "run_1", b'{"a": 1}')
    for header, expected in (
        (sign([KEY], second=now, **CALL), True),
        (sign([OTHER, KEY], second=now, **CALL), True),
        (sign([OTHER], second=now, **CALL), False),
        (sign([KEY], second=now - WINDOW - 5, **CALL), False),
        (None, False),
        ("t=1", False),
    ):
        assert check(header, *call) is expected
        if expected:
            verify([KEY], header, **CALL)
            assert check(header, "POST", "/close?a=1", "run_1", b"other") is False


def test_keys_are_read_from_the_setting() -> None:
    assert parse_keys("") == ()
    assert parse_keys(f" {'a' * 16} , {'b' * 20},") == (b"a" * 16, b"b" * 20)
    assert load(signing_key="a" * 16).signing_keys == (b"a" * 16,)


@pytest.mark.parametrize("text", ["short", f"{'a' * 16},short", ",".join(["a" * 16] * 9)])
def test_bad_keys_are_refused_and_not_told(text: str) -> None:
    with pytest.raises(InvalidError, match="TOCSIN_") as caught:
        load(signing_key=text)
    assert "short" not in str(caught.value)
    assert "aaaa" not in str(caught.value)
    assert "aaaa" not in repr(load(signing_key="a" * 16))
