"""The HTTP receiver logs every request before it answers, and behaves as the path says."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from support.receiver import Receiver


def test_a_request_is_logged_as_it_came(receiver: Receiver) -> None:
    before = time.time_ns()
    answer = httpx.post(f"{receiver.url}/ok?a=1", json={"n": 1}, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 200
    [received] = receiver.requests()
    assert before <= received.received_at <= time.time_ns()
    assert (received.method, received.path, received.key, received.json()) == (
        "POST",
        "/ok?a=1",
        "k",
        {"n": 1},
    )


def test_a_long_or_chunked_body_is_logged_in_part(receiver: Receiver) -> None:
    httpx.post(f"{receiver.url}/ok", content=b"y" * 10_000)
    httpx.post(f"{receiver.url}/ok", content=iter([b"z" * 3000, b"z" * 3000]))
    assert [(len(r.body), r.body_bytes) for r in receiver.requests()] == [(4096, 10_000), (4096, 6000)]


def test_failures_are_counted_for_each_key(receiver: Receiver) -> None:
    def statuses(key: str) -> list[int]:
        url, headers = f"{receiver.url}/status/503?times=2", {"Idempotency-Key": key}
        return [httpx.get(url, headers=headers).status_code for _ in range(3)]

    assert statuses("a") == [503, 503, 200]
    assert statuses("b") == [503, 503, 200]
    assert [httpx.get(f"{receiver.url}/status/418").status_code for _ in range(2)] == [418, 418]


def test_retry_after_says_when(receiver: Receiver) -> None:
    first, second = (httpx.get(f"{receiver.url}/retry-after?seconds=3&times=1") for _ in range(2))
    assert (first.status_code, first.headers["retry-after"], second.status_code) == (429, "3", 200)


def test_bodies_and_broken_connections(receiver: Receiver) -> None:
    assert len(httpx.get(f"{receiver.url}/big?bytes=100001").content) == 100_001
    assert httpx.get(f"{receiver.url}/status/204").status_code == 204
    assert httpx.get(f"{receiver.url}/nothing").status_code == 404
    assert httpx.get(f"{receiver.url}/slow?seconds=0").text == "slow"
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{receiver.url}/close")
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{receiver.url}/slow?seconds=60", timeout=0.05)


def test_a_trickle_comes_byte_by_byte(receiver: Receiver) -> None:
    with httpx.stream("GET", f"{receiver.url}/trickle") as answer:
        assert next(answer.iter_raw()) == b"."


def test_a_held_request_is_logged_before_it_is_released(receiver: Receiver) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.get, f"{receiver.url}/hold")
        receiver.wait_for(lambda r: r.path == "/hold")
        assert not answer.done()
        receiver.release()
        assert answer.result(10).text == "released"


def test_wait_for_returns_as_soon_as_enough_came(receiver: Receiver) -> None:
    def send() -> None:
        for number in range(20):
            httpx.get(f"{receiver.url}/ok?n={number}")

    thread = threading.Thread(target=send)
    thread.start()
    found = receiver.wait_for(lambda r: r.path.endswith(("4", "9")), count=4)
    thread.join()
    assert [r.path[-1] for r in found][:4] == ["4", "9", "4", "9"]
    with pytest.raises(AssertionError, match="20 of 21 requests"):
        receiver.wait_for(count=21, timeout=0.05)
