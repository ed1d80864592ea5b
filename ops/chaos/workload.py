"""The workload of one seed: jobs of every kind, and the calls that change them, as teams would make them.

Everything is drawn from the seed. A call that is not answered, or answered 5xx or 409 `key_in_flight`, is made again
with the same Idempotency-Key until it is answered; the window from its first sending to its answer is what the
judge knows of when it took effect. Calls about one job are made one after the other.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx

from chaos.catchup import WINDOW
from chaos.history import DROPPING, STOPPED, Change, Job, instant

_RETRY = {"maxAttempts": 60, "initial": "500ms", "factor": 1.5, "max": "2s", "jitter": "none"}
_CRONS = [
    "*/2 * * * * *",
    "*/3 * * * * *",
    "5,10,25,50 * * * * *",
    "0,30 * * * * *",
    "* * * * *",
    "*/2 * * * *",
]
_ZONES = ["UTC", "UTC", "America/New_York", "Asia/Kathmandu"]
_PAUSE = 0.3  # seconds before an unanswered call is made again


class Workload:
    """Plans at once; `run` makes the calls in time, `finish` stops the schedules."""

    def __init__(
        self, seed: int, seconds: float, *, target: str, api: Callable[[], str], size: float = 1.0
    ) -> None:
        self._dice = random.Random(seed)
        self._seconds, self._target, self._api, self._size = seconds, target, api, size
        self.jobs: list[Job] = []
        self._plan: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._locks: dict[str, threading.Lock] = {}
        self.calls = self.repeats = 0
        self.began = 0.0
        self.failed: list[str] = []
        self._prepare()

    def run(self, stop: threading.Event) -> None:
        """Make every planned call at its time; returns when the last is answered."""
        self.began = time.time()
        with ThreadPoolExecutor(16, thread_name_prefix="caller") as pool:
            results = []
            while self._plan and not stop.is_set():
                at, _, call = heapq.heappop(self._plan)
                if stop.wait(max(0.0, self.began + at - time.time())):
                    break
                results.append(pool.submit(call))
            for result in results:
                result.result()

    def finish(self) -> None:
        """Pause whatever still has a schedule."""
        live = [
            job
            for job in self.jobs
            if job.changes and job.changes[-1].schedule and job.kind not in ("once", "burst")
        ]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda job: self._change(job, "pause", STOPPED), live))

    def _at(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._plan, (seconds, next(self._number), call))

    def _prepare(self) -> None:
        dice, count = self._dice, lambda n: max(1, round(n * self._size))
        for _ in range(count(14)):
            self._recurring(self._job("plain"))
        for _ in range(count(4)):
            self._recurring(self._job("flaky", failures=dice.randint(1, 3)))
        for kind, seconds in (("skip", 2.4), ("queue", 1.6)):
            for _ in range(count(3)):
                job = self._job(kind, seconds=seconds)
                self._create(dice.uniform(0, 3), job, self._every(1 if kind == "skip" else 3))
        for kind in DROPPING:
            for _ in range(count(2)):
                self._create(dice.uniform(0, 3), self._job(kind), self._every(4))
        for _ in range(count(30)):
            after = dice.uniform(0, self._seconds - 5)
            self._once(self._job("once"), after, after + dice.uniform(2, 20))
        burst = self._seconds * dice.uniform(0.4, 0.6)
        for _ in range(count(300)):
            self._once(self._job("burst"), dice.uniform(0, burst * 0.6), burst)

    def _job(self, kind: str, **more: Any) -> Job:
        job = Job(f"{kind}-{len(self.jobs)}", kind, **more)
        self.jobs.append(job)
        self._locks[job.name] = threading.Lock()
        return job

    def _recurring(self, job: Job) -> None:
        """Create it, and let its life take some turns."""
        dice = self._dice
        at = dice.uniform(0, 5)
        self._create(at, job, self._schedule())
        while (at := at + dice.uniform(8, 25)) < self._seconds - 3:
            match dice.choice(
                ["edit", "edit", "pause", "manual", "manual", "delete" if dice.random() < 0.3 else "edit"]
            ):
                case "edit":
                    self._at(at, partial(self._change, job, "edit", self._schedule()))
                case "pause":
                    self._at(at, partial(self._change, job, "pause", STOPPED))
                    at += dice.uniform(2, 6)
                    self._at(at, partial(self._change, job, "resume", None))
                case "manual":
                    self._at(at, partial(self._manual, job))
                case "delete":
                    self._at(at, partial(self._change, job, "delete", STOPPED))
                    return

    def _schedule(self) -> dict[str, Any]:
        dice = self._dice
        if dice.random() < 0.5:
            return self._every(dice.randint(1, 5))
        return {"cron": dice.choice(_CRONS), "timeZone": dice.choice(_ZONES)}

    def _every(self, seconds: int) -> dict[str, Any]:
        return {
            "every": f"{seconds}s",
            "anchor": instant(time.time() // 3600 * 3600 + self._dice.randrange(seconds)).isoformat(),
        }

    def _once(self, job: Job, at: float, due: float) -> None:
        def create() -> None:
            whole = instant(self.began + due).replace(microsecond=0)
            self._change(job, "create", {"at": whole.isoformat()})

        self._at(at, create)

    def _create(self, at: float, job: Job, schedule: dict[str, Any]) -> None:
        self._at(at, partial(self._change, job, "create", schedule))

    def _change(self, job: Job, what: str, schedule: dict[str, Any] | None) -> None:
        with self._locks[job.name]:
            if schedule is None:
                schedule = next(c.schedule for c in reversed(job.changes) if c.schedule)
            change = Change(what, schedule, time.time())
            job.changes.append(change)
            answer = self._call(job, what, schedule)
            change.end = time.time()
            if what == "create":
                job.job_id = answer["jobId"].removeprefix("job_")

    def _manual(self, job: Job) -> None:
        with self._locks[job.name]:
            job.manual.append(self._call(job, "manual", {})["runId"])

    def _call(self, job: Job, what: str, schedule: dict[str, Any]) -> Any:
        place = f"/jobs/name:{job.name}"
        method, path, body = {
            "create": ("POST", "/jobs", self._document(job, schedule)),
            "edit": ("PATCH", place, {"schedule": schedule}),
            "pause": ("POST", f"{place}/pause", None),
            "resume": ("POST", f"{place}/resume", None),
            "delete": ("DELETE", place, None),
            "manual": ("POST", f"{place}/runs", None),
        }[what]
        headers = {"Idempotency-Key": str(uuid.uuid4())} if method == "POST" else {}
        self.calls += 1
        while True:
            try:
                answer = httpx.request(method, self._api() + path, json=body, headers=headers, timeout=15)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code < 300:
                return answer.json() if answer.content else None
            busy = answer is None or answer.status_code >= 500 or answer.json().get("code") == "key_in_flight"
            if not busy:
                assert answer is not None
                self.failed.append(f"{what} {job.name}: {answer.status_code} {answer.text[:300]}")
                raise RuntimeError(self.failed[-1])
            self.repeats += 1
            time.sleep(_PAUSE)

    def _document(self, job: Job, schedule: dict[str, Any]) -> dict[str, Any]:
        path = "/ok"
        if job.failures:
            path = f"/status/500?times={job.failures}"
        elif job.seconds:
            path = f"/slow?seconds={job.seconds}"
        document: dict[str, Any] = {
            "name": job.name,
            "task": {"http": {"url": self._target + path}},
            "timeout": "20s",
        }
        document |= {"schedule": schedule, "retryPolicy": _RETRY, "catchUp": "all"}
        if job.kind in DROPPING:
            document["catchUp"] = {"mode": job.kind, "window": f"{WINDOW:.0f}s"}
        if job.kind in ("skip", "queue"):
            document["concurrency"] = {"overlap": job.kind, "queueLimit": 1000}
        return document
