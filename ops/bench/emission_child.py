"""The process under test of `emission.py`: a node, or the bare loop that a node is measured against.

    python ops/bench/emission_child.py node|bare COUNT

Prints `ready`, then one JSON line when COUNT runs are confirmed: seconds since the epoch of the first and the
last confirm and the CPU seconds used. The bare loop does the same SQL and the same publishing, and nothing
else: no coordinator, no wheel, no epochs taken in between, no watermarks.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from beatshard.amqp_publisher import AmqpPublisher
from beatshard.node import Node, publisher_for
from beatshard.publisher import Confirmed
from beatshard.watermark import Batch, marks_of
from tocsin.settings import Settings, load
from tocsin.store import firing, partitions
from tocsin.store.plans import PlanCache
from tocsin.store.shards import connect


class Recorder:
    """Notes when batches are confirmed."""

    def __init__(self, publisher: Any, count: int) -> None:
        self.publisher, self.count = publisher, count
        self.done = threading.Event()
        self.confirmed = 0
        self.first = self.last = 0.0
        self._publish = publisher.publish
        publisher.publish = self.publish

    def publish(self, batch: Batch, confirmed: Confirmed) -> None:
        def on_confirm(done: Batch) -> None:
            confirmed(done)
            self.last = time.time()
            self.first = self.first or self.last
            self.confirmed += len(done.runs)
            if self.confirmed >= self.count:
                self.done.set()

        self._publish(batch, on_confirm)

    def report(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        figures = {"first": self.first, "last": self.last, "confirmed": self.confirmed}
        print(json.dumps({**figures, "cpu": usage.ru_utime + usage.ru_stime}), flush=True)


def node(settings: Settings, count: int) -> None:
    made = Node(settings)
    recorder = Recorder(made.publisher, count)
    thread = threading.Thread(target=made.run_forever, daemon=True)
    thread.start()
    while not made._ready:
        time.sleep(0.05)
    print("ready", flush=True)
    recorder.done.wait()
    recorder.report()
    made.stop()
    thread.join(30)


def bare(settings: Settings, count: int) -> None:
    publisher = publisher_for(settings)
    assert isinstance(publisher, AmqpPublisher)
    recorder = Recorder(publisher, count)
    publisher.start()
    conn = connect(settings.shards.shards[0].url)
    conn.execute("SET enable_seqscan = off")
    owned = {each.partition: each.epoch for each in partitions.take(conn, range(1024), "bare")}
    plans = PlanCache(retention=timedelta(days=30))
    at = conn.execute("SELECT min(fire_at) FROM triggers").fetchone()[0]  # type: ignore[index]
    print("ready", flush=True)
    time.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))
    firing.look_ahead(conn, plans, list(owned), 5.0)
    together = max(1, settings.fire_batch * 1024 // count)
    numbers = list(owned)
    for start in range(0, 1024, together):
        mine = {number: owned[number] for number in numbers[start : start + together]}
        while publisher.backlog > 20_000:
            time.sleep(0.001)
        done = firing.fire(conn, plans, mine, limit=1000, horizon=5.0)
        if done.runs and done.fired_at:
            batch = Batch(runs=done.runs, marks=marks_of(done.runs, done.fired_at, mine))
            publisher.publish(batch, lambda _: None)
    recorder.done.wait()
    recorder.report()
    publisher.close()


if __name__ == "__main__":
    {"node": node, "bare": bare}[sys.argv[1]](load(), int(sys.argv[2]))
