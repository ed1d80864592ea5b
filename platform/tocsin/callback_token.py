"""The one-time token with which a target calls back. Pure.

A worker makes a secret for every message it takes. The token of the lease that it claims with is made from a hash of
that secret, so the run's row holds the hash of the callback's token as soon as the claim is committed: nothing
more has to be stored, the target may call back before it has answered, and with the lease the token is gone, be it
used, given up, or passed on to another attempt. Whoever reads the database cannot call back.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from hashlib import sha256
from uuid import UUID

SECRET_BYTES = 32
_PURPOSE = b"tocsin callback\n"


def new_secret() -> bytes:
    """A secret that nobody can guess."""
    return secrets.token_bytes(SECRET_BYTES)


def lease_token(secret: bytes) -> UUID:
    """The token of the lease: 128 bits of the hash of the secret."""
    return UUID(bytes=sha256(_PURPOSE + secret).digest()[:16])


def callback_token(secret: bytes) -> str:
    """The secret as it goes to the target: 43 characters that any header and URL can hold."""
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode("ascii")


def read_callback_token(text: str | None) -> UUID | None:
    """The token of the lease that a callback's token belongs to; None when it cannot be one."""
    if text is None or len(text) > 100:
        return None
    try:
        secret = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return lease_token(secret) if len(secret) == SECRET_BYTES else None
