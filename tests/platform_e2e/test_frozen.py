"""A node that is stopped at the worst place, just before a firing transaction, and wakes up past its lease."""

from __future__ import annotations

from collections import Counter, defaultdict

from platform_e2e.platform import Platform
from support.receiver import Receiver
from tocsin.ids import parse_run_id


def test_the_store_refuses_what_a_node_does_after_its_lease(platform: Platform, receiver: Receiver) -> None:
    frozen = platform.node(TOCSIN_CRASH_AT="before-firing:6:STOP")
    other = platform.node()
    platform.worker()
    for number in range(8):
        platform.create(f"tick-{number}", f"{receiver.url}/ok", schedule="every 1s", catchUp="all")
    other.wait_for_line(
        "partitions_taken", skip=1, timeout=60
    )  # its share first, then what the stopped one had
    before = len(receiver.requests())
    # Soon after the takeover: a minute later the database would have ended the stopped node's transaction by itself.
    receiver.wait_for(count=before + 8, timeout=60)
    frozen.resume()
    frozen.wait_for_line(r"partitions_fenced shard=\S+ count=[1-9]", timeout=30)
    receiver.wait_for(count=len(receiver.requests()) + 24, timeout=60)
    times: dict[str, list[int]] = defaultdict(list)
    for request in receiver.requests():
        key = parse_run_id(request.key)
        assert key is not None
        times[key.job_id.hex].append(key.scheduled_us // 1_000_000)
    assert len(times) == 8
    for found in times.values():
        assert max(Counter(found).values()) == 1, "a nominal time ran twice"
        # The last ones may still be under way, in any order.
        assert sorted(found)[:-3] == list(range(min(found), sorted(found)[-3]))
