"""Idempotency keys: an effect that is asked for twice under one key happens once.

The answer is stored in the transaction of its effect, in the partition of the job, so only committed outcomes
are ever replayed. Two requests at once are told apart by an advisory lock on the key, held until the commit.
Failures store nothing: a retry after one is a new try. Keys are kept for RETENTION.

`POST /jobs` finds its partition by the name in the body, so the same key with another body could look in
another partition. Therefore the key is also *bound* to its fingerprint, in the partition of the key's own
hash. In one shard both rows are written in one transaction. When they lie in different shards, the binding is
committed first; same key and same body mean the same name, so the answer is always found.

Weaknesses, with several shards only. When the effect then fails (name taken, shard down), the binding stays,
and the key cannot be used with another body until it is old. While the shard of the binding is away, keys are not
bound: the same key with another body is then not noticed. A client that makes a fresh key for each new request,
as it should, meets neither.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert

from tocsin.errors import ConflictError, TocsinError
from tocsin.ids import PARTITIONS
from tocsin.store.schema import idempotency_keys as keys

RETENTION = timedelta(hours=24)
MAX_KEY = 255
_BINDING = 0  # the status of a row that holds no answer


class InFlightError(ConflictError):
    """A request with this key is being worked on."""


class KeyReusedError(TocsinError):
    """The key was used with another body."""

    code = "key_reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key in its scope, and what it stands for."""

    scope: str  # hash of (namespace, principal, method, path, key)
    fingerprint: bytes  # hash of the canonical body

    @property
    def partition(self) -> int:
        """Where the key is bound to its fingerprint."""
        return int(self.scope[:8], 16) % PARTITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An answer as it was given the first time."""

    status: int
    headers: dict[str, Any]
    body: bytes


def key_for(*, namespace: str, principal: str, method: str, path: str, key: str, body: bytes) -> Key:
    """The key of a request; `body` is the canonical text of what was sent."""
    scope = hashlib.sha256("\x00".join((namespace, principal, method, path, key)).encode()).hexdigest()
    return Key(scope=scope, fingerprint=hashlib.sha256(body).digest())


def begin(conn: Connection, partition: int, key: Key) -> Stored | None:
    """The stored answer, or None when the effect has not happened; the key is then ours until the commit.

    Raises InFlightError, KeyReusedError. Index: idempotency_keys_pkey.
    """
    _own(conn, key)
    return _read(conn, partition, key, key.scope)


def finish(conn: Connection, partition: int, key: Key, answer: Stored) -> None:
    """Store the answer, in the transaction of the effect."""
    _write(conn, partition, key.scope, key.fingerprint, answer)


def bind(conn: Connection, key: Key) -> None:
    """Bind the key to its fingerprint in the key's own partition. Raises InFlightError, KeyReusedError."""
    _own(conn, key)
    name = f"bound:{key.scope}"
    if _read(conn, key.partition, key, name) is None:
        _write(conn, key.partition, name, key.fingerprint, Stored(status=_BINDING, headers={}, body=b""))


def purge(conn: Connection, limit: int = 10_000) -> int:
    """Remove at most `limit` old keys; for maintenance. Index: idempotency_keys_age."""
    old = (
        select(keys.c.partition_id, keys.c.key)
        .where(keys.c.created_at < func.clock_timestamp() - RETENTION)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .subquery()
    )
    gone = delete(keys).where(keys.c.partition_id == old.c.partition_id, keys.c.key == old.c.key)
    return conn.execute(gone).rowcount


def _own(conn: Connection, key: Key) -> None:
    number = int.from_bytes(bytes.fromhex(key.scope[:16]), "big", signed=True)
    if not conn.execute(text("SELECT pg_try_advisory_xact_lock(:number)"), {"number": number}).scalar_one():
        raise InFlightError(
            "a request with this Idempotency-Key is being worked on",
            code="key_in_flight",
            fix="wait a second and send the same request again",
        )


def _read(conn: Connection, partition: int, key: Key, name: str) -> Stored | None:
    row = conn.execute(
        select(keys).where(
            keys.c.partition_id == partition,
            keys.c.key == name,
            keys.c.created_at >= func.clock_timestamp() - RETENTION,
        )
    ).first()
    if row is None:
        return None
    if bytes(row.fingerprint) != key.fingerprint:
        raise KeyReusedError("this Idempotency-Key was used with another request body")
    return Stored(status=row.status, headers=row.headers, body=bytes(row.body))


def _write(conn: Connection, partition: int, name: str, fingerprint: bytes, answer: Stored) -> None:
    values = {
        "fingerprint": fingerprint,
        "status": answer.status,
        "headers": answer.headers,
        "body": answer.body,
        "created_at": func.clock_timestamp(),
    }
    # A row in the way is past the retention: `_read` did not see it, and the lock is ours.
    conn.execute(
        insert(keys)
        .values(partition_id=partition, key=name, **values)
        .on_conflict_do_update(index_elements=["partition_id", "key"], set_=values)
    )
