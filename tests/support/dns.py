"""A name server for tests: UDP on loopback, answers by name and type, in turn; and a way to ask it.

`NameServer({"a.test": [["192.0.2.1"], ["10.0.0.1"]]})` gives the first list to the first question of each type and
stays with the last one. IPv4 addresses answer A, IPv6 ones AAAA. A name that it does not know does not exist.

`asks(server)` points the C library's resolver at it, for the calling thread only (glibc keeps the resolver's
state by thread), so that the real `getaddrinfo` is what is tested.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
import threading
from collections import Counter
from typing import Self

A, AAAA = 1, 28
_NAMESERVERS = 16  # where glibc's __res_state has its number of name servers, then their addresses
_OPTIONS_AT = 8


class NameServer:
    """Runs in a thread until the end of the `with` block; `asked` counts questions by (name, type)."""

    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self._answers = answers
        self.asked: Counter[tuple[str, int]] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="name server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, client = self._socket.recvfrom(4096)
            if not question:
                return
            self._socket.sendto(self._answer(question), client)

    def _answer(self, question: bytes) -> bytes:
        labels, at = [], 12
        while size := question[at]:
            labels.append(question[at + 1 : at + 1 + size].decode())
            at += size + 1
        name, (kind,) = ".".join(labels).lower(), struct.unpack_from("!H", question, at + 1)
        turn = self.asked[name, kind]
        self.asked[name, kind] += 1
        rounds = self._answers.get(name)
        texts = rounds[min(turn, len(rounds) - 1)] if rounds else []
        found = [
            address
            for text in texts
            if (address := ipaddress.ip_address(text)).version == (4 if kind == A else 6)
        ]
        code = 0 if rounds else 3
        head = question[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(found), 0, 0)
        records = (
            struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(address.packed)) + address.packed
            for address in found
        )
        return head + question[12 : at + 5] + b"".join(records)


def asks(server: NameServer) -> None:
    """Let the `getaddrinfo` of this thread ask that server and no other."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.__res_state.restype = ctypes.c_void_p
    state = libc.__res_state()
    assert libc.__res_ninit(ctypes.c_void_p(state)) == 0
    ctypes.c_int.from_address(state + _NAMESERVERS).value = 1
    address = (
        struct.pack("=H", socket.AF_INET) + struct.pack("!H", server.port) + socket.inet_aton("127.0.0.1")
    )
    ctypes.memmove(state + _NAMESERVERS + 4, address + bytes(8), 16)
