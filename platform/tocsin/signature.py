"""Signatures by which a receiver knows that a call comes from tocsin, unchanged and lately. Standard library only.

The header `Tocsin-Signature: t=1772366400,v1=…,v1=…` holds the second at which the call was sent and one HMAC-SHA256
in hexadecimal for each key of the sender, so that keys can be changed without a gap. Signed are, each ended by
one newline, `v1`, the second, the method, the target (path and query, as in the request line) and the
`Idempotency-Key`, then the body. None of the first five can hold a newline, so the parts cannot be shifted.

`verify` is for receivers. Inside the window a call can be replayed as it is; whoever minds remembers the
Idempotency-Key, which is signed, too. docs/http-jobs.md has the same without this package.

Weakness: a key is shared, so whoever can verify can also sign. The host is not signed, since proxies change it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256

from tocsin import clock

HEADER = "Tocsin-Signature"
WINDOW = 300  # seconds that a call may be old, or ahead of the receiver's clock
SHORTEST_KEY = 16  # bytes
MOST_SIGNATURES = 8
_HEADER = re.compile(r"t=(\d{1,12})((?:,v1=[0-9a-f]{64})+)")


class BadSignatureError(ValueError):
    """The call is not to be trusted; the words say why."""


def sign(keys: Sequence[bytes], *, second: int, method: str, target: str, key: str, body: bytes) -> str:
    """The header of a call; `key` is its Idempotency-Key, `second` epoch seconds."""
    message = _message(second, method, target, key, body)
    return ",".join([f"t={second}", *(f"v1={_hmac(secret, message)}" for secret in keys)])


def verify(
    keys: Sequence[bytes],
    header: str | None,
    *,
    method: str,
    target: str,
    key: str,
    body: bytes,
    window: int = WINDOW,
    now: float | None = None,
) -> None:
    """Return when one of the signatures is made with one of `keys`, at most `window` seconds ago.

    `target` is path and query exactly as in the request line, `key` the Idempotency-Key header, `now` epoch
    seconds (by default the clock's). Comparisons take the same time wherever the first difference is.
    Raises BadSignatureError.
    """
    match = _HEADER.fullmatch(header or "")
    if match is None:
        raise BadSignatureError(f"there is no {HEADER} header that can be read")
    second, given = int(match[1]), match[2].removeprefix(",v1=").split(",v1=")
    if abs((clock.now().timestamp() if now is None else now) - second) > window:
        raise BadSignatureError(f"the call was signed more than {window} seconds ago, or ahead")
    message = _message(second, method, target, key, body)
    good = False
    for secret in keys:
        made = _hmac(secret, message)
        for one in given[:MOST_SIGNATURES]:
            good |= hmac.compare_digest(made, one)
    if not good:
        raise BadSignatureError("no signature of this call is made with a known key")


def parse_keys(text: str) -> tuple[bytes, ...]:
    """The keys in `TOCSIN_SIGNING_KEY`, separated by commas. Raises ValueError, without the keys in it."""
    keys = tuple(part.strip().encode() for part in text.split(",") if part.strip())
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise ValueError(
            f"a signing key has at least {SHORTEST_KEY} bytes; make one with openssl rand -hex 32"
        )
    if len(keys) > MOST_SIGNATURES:
        raise ValueError(f"at most {MOST_SIGNATURES} signing keys can be used at once")
    return keys


def _message(second: int, method: str, target: str, key: str, body: bytes) -> bytes:
    return f"v1\n{second}\n{method}\n{target}\n{key}\n".encode() + body


def _hmac(secret: bytes, message: bytes) -> str:
    return hmac.new(secret, message, sha256).hexdigest()
