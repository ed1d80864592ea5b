"""Keeps the beginning and the end of something long: half of the limit each.

Memory: the limit, and what one chunk has more. A character of UTF-8 that the cut goes through is left out.
"""

from __future__ import annotations

from tocsin.store.leases import Output

CONTENT_TYPE_CHARS = 200


class HeadTail:
    """`size` counts every byte that came; at most `limit` of them are kept, and a line that tells of the rest."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, chunk: bytes) -> None:
        """The next bytes."""
        self.size += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut now and then, not with every chunk: cutting moves what stays.
        if len(self._tail) > 2 * self._tail_limit:
            self._cut()

    def output(self, content_type: str | None) -> Output | None:
        """What was kept; None when nothing came."""
        if not self.size:
            return None
        self._cut()
        left_out = self.size - len(self._head) - len(self._tail)
        content = bytes(self._head + self._tail)
        if left_out:
            head, tail = _whole_end(bytes(self._head)), _whole_start(bytes(self._tail))
            left_out = self.size - len(head) - len(tail)
            content = head + f"\n[… {left_out} bytes left out …]\n".encode() + tail
        kind = content_type[:CONTENT_TYPE_CHARS] if content_type else None
        return Output(content=content, content_type=kind, size=self.size, truncated=left_out > 0)

    def _cut(self) -> None:
        if len(self._tail) > self._tail_limit:
            del self._tail[: len(self._tail) - self._tail_limit]


def _whole_end(text: bytes) -> bytes:
    """Without the beginning of a character at its end."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0xC0 != 0x80:  # not a continuation: the character begins here
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return text if length <= back else text[:-back]
    return text


def _whole_start(text: bytes) -> bytes:
    """Without the end of a character at its beginning."""
    for at in range(min(3, len(text))):
        if text[at] & 0xC0 != 0x80:
            return text[at:]
    return text[min(3, len(text)) :]
