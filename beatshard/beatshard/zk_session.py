"""One session with ZooKeeper, on kazoo: what the coordinator needs of it, each wait bounded.

Protocol: below the chroot lie `members`, one ephemeral node a member, named `node@zone`, and `owners`, one
ephemeral node a partition, holding the owner's name. Every write carries a check that the member's node is still
there, so nothing is written under an identity that is gone. One watch on each of the two parents; nodes are not
watched one by one. `lost` is final: a new member needs a new session.

A heartbeat is a `sync`: it goes through the leader, costs no disk write, and is not answered for a session that
has ended; a plain read would be answered by a server that has lost its leader. After it, every watch event of
what happened before has been seen.

kazoo traps dealt with here: it learns of a dead connection late, and never while requests keep going out, so
a heartbeat without an answer cuts the connection; connecting, and the greeting of a server that accepts and says
nothing, may each take it a whole session, so there is a shorter limit; it does not say what timeout the server
granted; requests are answered with ConnectionLoss whether or not they were carried out, so a `Write` can end
unknown.

Weakness: the greeting is a private method of kazoo; tests hold what is done with it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import Callback, KazooState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from tocsin.clock import monotonic
from tocsin.coordination import ZooKeeperAddress

ERRORS = (KazooException, KazooTimeoutError)
_CONNECT = 3.0  # seconds for the first connection
_ATTEMPT = 2.0  # seconds at most for one server to take the connection, and to greet
_ANSWER = 1 / 3  # of the session: after so long without an answer the connection counts as dead
_BATCH = 128  # nodes made or deleted in one transaction


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with a limit on connecting and a way to cut the connection."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self._limit = limit
        self._socket: socket.socket | None = None

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["timeout"] = min(kwargs["timeout"], self._limit)
        self._socket = super().create_connection(*args, **kwargs)
        return self._socket

    def cut(self) -> None:
        """End the connection, not the session: kazoo goes on to the next server."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Write:
    """One transaction on owner nodes that has been sent."""

    def __init__(self, partitions: list[int], answer: Any) -> None:
        self.partitions = partitions
        self._answer = answer

    @property
    def settled(self) -> bool:
        """Whether it cannot be carried out later any more."""
        return bool(self._answer.ready())

    def done(self, deadline: float) -> bool:
        """Whether it was carried out; False also when that is unknown.

        Raises NoAuthError, and NoNodeError when the member's node is gone.
        """
        try:
            results = self._answer.get(timeout=max(0.0, deadline - monotonic()))
        except ERRORS:
            return False
        if isinstance(results[0], NoNodeError):
            raise results[0]
        for result in results:
            if isinstance(result, NoAuthError):
                raise result
        return not any(isinstance(result, Exception) for result in results)


class ZkSession:
    """See the module. `on_event` is called, from kazoo's threads, with True when the membership is in doubt."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        *,
        auth: tuple[str, str] | None,
        timeout: float,
        on_event: Callable[[bool], None],
    ) -> None:
        self.timeout = timeout  # seconds, as granted once started
        self.lost = False
        self._members = address.chroot + "/members"
        self._owners = address.chroot + "/owners"
        self._me = ""
        self._on_event = on_event
        self._stopped = False
        self._changed = threading.Event()
        self._attempt = min(_ATTEMPT, timeout / max(3, len(address.hosts)))
        self._handler = _Handler(self._attempt)
        self._client = KazooClient(
            ",".join(address.hosts),
            timeout=timeout,
            handler=self._handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5),
            auth_data=[("digest", ":".join(auth))] if auth else None,
            default_acl=[make_digest_acl(*auth, all=True)] if auth else None,
        )
        self._client.add_listener(self._on_state)
        self._change_the_greeting()

    @property
    def connected(self) -> bool:
        return bool(self._client.connected)

    def start(self, node_id: str, zone: str) -> None:
        """Connect, make the paths and become a member. After an error the session is of no use; `stop` it."""
        self._client.start(timeout=_CONNECT)
        for path in (self._members, self._owners):
            self._client.ensure_path_async(path).get(timeout=self.timeout)
        self._me = f"{self._members}/{node_id}@{zone}"
        self._client.create_async(self._me, ephemeral=True).get(timeout=self.timeout)
        self._changed.set()

    def stop(self) -> None:
        """End the session, and with it the membership, if the service can be reached. Harmless when repeated."""
        self._stopped = True
        with suppress(*ERRORS):
            self._client.stop()
            self._client.close()

    def heartbeat(self) -> float:
        """Ask the leader for a sign of life; the deadline of the round, in monotonic seconds."""
        deadline = monotonic() + self.timeout * _ANSWER
        answer = self._client.sync_async(self._members)
        events = threading.Event()
        try:
            answer.get(timeout=deadline - monotonic())
        except KazooTimeoutError:
            self._handler.cut()
            raise
        self._handler.dispatch_callback(Callback("watch", events.set, ()))
        events.wait(deadline - monotonic())
        return deadline

    def changed(self) -> bool:
        """Whether members or owners may differ from what was last read; reading is then due."""
        return self._changed.is_set()

    def read(self, deadline: float) -> tuple[dict[str, str], set[int]]:
        """The zones of the members by name, and the partitions that have an owner."""
        self._changed.clear()
        try:
            answers = [
                self._client.get_children_async(path, watch=self._on_watch)
                for path in (self._members, self._owners)
            ]
            members, owners = (each.get(timeout=max(0.0, deadline - monotonic())) for each in answers)
        except BaseException:
            self._changed.set()
            raise
        pairs = (name.partition("@") for name in members)
        return {node: zone for node, _, zone in pairs}, {int(name) for name in owners if name.isdecimal()}

    def take(self, node_id: str, partitions: Collection[int]) -> list[Write]:
        """Become the owner of these; fails for a whole batch when one of them has an owner."""
        value = node_id.encode()
        return self._write(partitions, lambda batch, path: batch.create(path, value, ephemeral=True))

    def give_back(self, partitions: Collection[int]) -> list[Write]:
        """No longer own these, which must be this session's."""
        return self._write(partitions, lambda batch, path: batch.delete(path))

    def owned_by(self, node_id: str, partitions: Iterable[int], deadline: float) -> dict[int, bool]:
        """Whether each of these is this node's, asked one by one; for those whose write ended unknown."""
        answers = {p: self._client.get_async(self._path(p)) for p in partitions}
        found: dict[int, bool] = {}
        for partition, answer in answers.items():
            try:
                value, _ = answer.get(timeout=max(0.0, deadline - monotonic()))
                found[partition] = value == node_id.encode()
            except NoNodeError:
                found[partition] = False
        return found

    def _write(
        self, partitions: Collection[int], add: Callable[[TransactionRequest, str], None]
    ) -> list[Write]:
        ordered = sorted(partitions)
        writes = []
        for start in range(0, len(ordered), _BATCH):
            part = ordered[start : start + _BATCH]
            batch = self._client.transaction()
            batch.check(self._me, -1)
            for partition in part:
                add(batch, self._path(partition))
            writes.append(Write(part, batch.commit_async()))
        return writes

    def _path(self, partition: int) -> str:
        return f"{self._owners}/{partition:04d}"

    def _on_watch(self, event: object) -> None:
        self._changed.set()
        self._on_event(False)

    def _on_state(self, state: str) -> None:
        if self._stopped:
            return
        self.lost = self.lost or state == KazooState.LOST
        self._changed.set()
        self._on_event(state != KazooState.CONNECTED)

    def _change_the_greeting(self) -> None:
        """Bound it, which kazoo does by the session only, and note the timeout that the server grants."""
        connection = self._client._connection
        ask = connection._invoke

        def invoke(timeout: float, request: Any, xid: int | None = None) -> Any:
            answer = ask(min(timeout, self._attempt), request, xid)
            if isinstance(request, Connect) and answer[0].time_out > 0:
                self.timeout = answer[0].time_out / 1000
            return answer

        connection._invoke = invoke
