"""What is kept of something long: its beginning and its end, in whole characters, whatever the chunks."""

from __future__ import annotations

import random

import pytest

from tocsin.capture import HeadTail


def kept(chunks: list[bytes], limit: int) -> tuple[bytes, int, bool] | None:
    capture = HeadTail(limit)
    for chunk in chunks:
        capture.add(chunk)
    output = capture.output("text/plain")
    return output and (output.content, output.size, output.truncated)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], None),
        ([b""], None),
        ([b"abc"], (b"abc", 3, False)),
        ([b"0123456789"], (b"0123456789", 10, False)),
        ([b"0123456789A"], (b"01234\n[\xe2\x80\xa6 1 bytes left out \xe2\x80\xa6]\n6789A", 11, True)),
        (
            [b"01234", b"x" * 500, b"56789"],
            (b"01234\n[\xe2\x80\xa6 500 bytes left out \xe2\x80\xa6]\n56789", 510, True),
        ),
    ],
)
def test_beginning_and_end(chunks: list[bytes], expected: tuple[bytes, int, bool] | None) -> None:
    assert kept(chunks, 10) == expected


def test_a_limit_of_nothing_keeps_only_the_size() -> None:
    content, size, truncated = kept([b"abc"], 0) or (b"", 0, False)
    assert (b"3 bytes left out" in content, size, truncated) == (True, 3, True)


@pytest.mark.parametrize("text", ["é" * 40, "€uro" * 20, "𝄞x" * 20, "a𝄞€é" * 12])
@pytest.mark.parametrize("limit", range(1, 40))
def test_no_character_is_cut_in_two(text: str, limit: int) -> None:
    whole = text.encode()
    draw = random.Random(limit)
    chunks, at = [], 0
    while at < len(whole):
        size = draw.randint(1, 9)
        chunks.append(whole[at : at + size])
        at += size
    content, size, truncated = kept(chunks, limit) or (b"", 0, False)
    head, _, rest = content.decode().partition("\n[… ")
    number, _, tail = rest.partition(" bytes left out …]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert (size, truncated) == (len(whole), True)
    assert int(number) == len(whole) - len(head.encode()) - len(tail.encode())
    assert limit - 6 <= len(head.encode()) + len(tail.encode()) <= limit


def test_bytes_that_are_no_text_are_kept_as_they_are() -> None:
    whole = bytes(range(256)) * 4
    content, _, _ = kept([whole], 512) or (b"", 0, False)
    assert content.startswith(whole[:252])
    assert content.endswith(whole[-252:])
