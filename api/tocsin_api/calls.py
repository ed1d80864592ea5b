"""What a handler is given, and how it reaches the store.

A handler is a plain function from a Call to an Answer; it runs in a thread. Everything it changes it changes
in `effect`, which is one transaction in the shard of one partition. With an `Idempotency-Key` the stored
answer is replayed, or the new one is stored in the same transaction.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import Connection

from tocsin.errors import NotFoundError, ShardUnavailableError
from tocsin.ids import RunKey, parse_run_id
from tocsin.settings import Settings
from tocsin.store import idempotency, transactions
from tocsin.store.idempotency import Key, Stored
from tocsin.store.job_edits import Expected
from tocsin.store.jobs import JobRef, parse_ref
from tocsin.store.shards import Shard
from tocsin_api.answers import Answer, ApiError

log = logging.getLogger("tocsin.api")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')
_TAGS = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e]*"\s*)*')


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, decoded and validated as far as its operation says."""

    settings: Settings
    path: Mapping[str, str]
    query: BaseModel | None
    body: Any
    headers: Mapping[str, str]
    key: Key | None
    url_path: str
    url_query: tuple[tuple[str, str], ...] = ()

    def query_as(self, model: type[M]) -> M:
        """The query parameters."""
        return cast(M, self.query)

    @property
    def job(self) -> JobRef:
        """The job that the path names."""
        return parse_ref(self.path["job_id"], self.settings.namespace)

    @property
    def run(self) -> RunKey:
        """The run that the path names. Raises NotFoundError."""
        key = parse_run_id(self.path["run_id"])
        if key is None:
            raise NotFoundError(f"{self.path['run_id'][:80]!r} is no run ID")
        return key

    @property
    def retention(self) -> timedelta:
        return timedelta(days=self.settings.retention_days)

    def read(self, partition: int, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction of the partition's shard."""
        return transactions.at(self.settings.shards, partition, lambda conn, _: work(conn))

    def effect(self, partition: int, work: Callable[[Connection], Answer], *, bound: bool = False) -> Answer:
        """Run `work` once for the request's idempotency key, if it has one.

        `bound`: the partition depends on the body, so the key must be bound to its fingerprint beforehand.
        """
        key = self.key
        if key is None:
            return self.read(partition, work)
        shards = self.settings.shards
        if bound and shards.shard_of(key.partition) != shards.shard_of(partition):
            self._bind(key)

        def once(conn: Connection, shard: Shard) -> Answer:
            if bound and shards.shard_of(key.partition) == shard:
                idempotency.bind(conn, key)
            stored = idempotency.begin(conn, partition, key)
            if stored is not None:
                return Answer(
                    status=stored.status,
                    body=stored.body,
                    headers={**stored.headers, "idempotency-replayed": "true"},
                )
            answer = work(conn)
            idempotency.finish(
                conn,
                partition,
                key,
                Stored(status=answer.status, headers=dict(answer.headers), body=answer.body),
            )
            return answer

        return transactions.at(shards, partition, once)

    def _bind(self, key: Key) -> None:
        """Bind the key in its own shard. That shard being away is no reason to refuse what another one can do."""
        try:
            self.read(key.partition, lambda conn: idempotency.bind(conn, key))
        except ShardUnavailableError:
            log.warning("key_not_bound partition=%d", key.partition)

    def expected(self) -> Expected | None:
        """What `If-Match` accepts; None when anything is. Weak tags never match (RFC 9110, 13.1.1)."""
        text = self.headers.get("if-match")
        if text is None or text.strip() == "*":
            return None
        wanted = {tag for weak, tag in _tags("If-Match", text) if not weak}
        return lambda version: str(version) in wanted

    def unchanged(self, version: int) -> bool:
        """Whether `If-None-Match` names this version."""
        text = self.headers.get("if-none-match")
        if text is None:
            return False
        return text.strip() == "*" or str(version) in {tag for _, tag in _tags("If-None-Match", text)}


def _tags(header: str, text: str) -> list[tuple[str, str]]:
    if re.fullmatch(r"\s*\d{1,18}\s*", text):
        return [("", text.strip())]  # a version without its quotes
    if len(text) > 2000 or not _TAGS.fullmatch(text):
        raise ApiError("bad_header", f"{header} holds no entity tag", fix=f'write {header}: "7"')
    return _TAG.findall(text)


def idempotency_key(call: Call, method: str, fingerprint: bytes) -> Call:
    """The call with its `Idempotency-Key`, quoted or bare."""
    text = call.headers.get("idempotency-key")
    if text is None:
        return call
    bare = re.fullmatch(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"', text)
    key = re.sub(r"\\(.)", r"\1", bare[1]) if bare else text
    if not 1 <= len(key) <= idempotency.MAX_KEY or not re.fullmatch(r"[\x20-\x7e]+", key):
        raise ApiError(
            "bad_header",
            "Idempotency-Key must have 1 to 255 printable ASCII characters",
            fix="send a UUID as Idempotency-Key",
        )
    made = idempotency.key_for(
        namespace=call.settings.namespace,
        principal="",
        method=method,
        path=call.url_path,
        key=key,
        body=fingerprint,
    )
    return replace(call, key=made)
