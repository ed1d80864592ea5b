"""The verdict over one seed, from its history alone; pure.

What must have run is computed by the slow oracle from the acknowledged calls: a nominal time that lies after the
answer to the call that set the schedule and before the next call was sent. What may have run takes the calls'
whole windows. The witness's log says what did run; tocsin's tables are only asked for the outcome it claims.

missed        a nominal time that had to run has no arrival, and no outcome that excuses it
unaccounted   a nominal time that had to run has neither a run nor a gap in the tables
early         an arrival before its nominal time
late          an arrival more than LATE seconds after its nominal time without a fault since shortly before it
phantom       an arrival at a nominal time that no schedule of its job names
stale         the same, when an older schedule of the job names it: an edit, pause or delete came too late
double        the same attempt of a run arrived twice, or two runs stand for one nominal time
unjustified   a further attempt, though the target had not failed and no fault was near
overlap       two runs of a job under `skip` or `queue` at once, though the first one's attempt was not lost
usurped       a run was made by a node that did not own its partition then (a database trigger watches)
stuck         a run that is not final, or a trigger that is overdue, when all is quiet
wrong         a run that ended otherwise than its target's answers say

Weakness: a nominal time in the window of a call may have run or not, and is not judged beyond that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from chaos.history import Arrival, Change, Fault, History, Job, Run, nominals

LATE = 3.0  # seconds
# A fault counts for what follows it for so long: leases (3 s nodes, 4 s runs), sessions and reconnections have to run out.
SHADOW = 15.0
_SAME = 1000  # microseconds within which two runs stand for one nominal time
FINAL = {"succeeded", "failed", "cancelled", "skipped"}
VERDICTS = (
    "missed", "unaccounted", "early", "late", "phantom", "stale", "double", "unjustified", "overlap", "usurped", "stuck", "wrong",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation; `nominal` is 0 when it is about the whole."""

    verdict: str
    job: str
    nominal: int
    detail: str


def judge(history: History) -> list[Finding]:
    """Every violation, in no particular order."""
    found: list[Finding] = []
    by_job: dict[str, list[Arrival]] = defaultdict(list)
    rows: dict[str, dict[int, Run]] = defaultdict(dict)
    for arrival in history.arrivals:
        by_job[arrival.job_id].append(arrival)
    for run in history.runs:
        rows[run.job_id][run.nominal] = run
    known = {job.job_id for job in history.jobs}
    for job in history.jobs:
        arrivals = sorted(by_job[job.job_id], key=lambda a: a.at)
        found += _Judge(history, job, arrivals, rows[job.job_id]).all()
    for job_id in by_job.keys() - known:
        found += [Finding("phantom", job_id, a.nominal, "no such job") for a in by_job[job_id]]
    found += [Finding("usurped", "", 0, words) for words in history.usurped]
    if history.overdue:
        found.append(Finding("stuck", "", 0, f"{history.overdue} triggers are overdue"))
    return found


def lateness(history: History) -> tuple[list[float], list[float]]:
    """Seconds from nominal time to the first arrival of scheduled runs: far from faults, and near them."""
    scheduled = {(run.job_id, run.nominal) for run in history.runs if run.origin == "schedule"}
    first: dict[tuple[str, int], float] = {}
    for arrival in history.arrivals:
        if arrival.run in scheduled:
            first[arrival.run] = min(arrival.at, first.get(arrival.run, arrival.at))
    calm: list[float] = []
    near: list[float] = []
    for (_, nominal), at in first.items():
        due = nominal / 1e6
        (near if near_fault(history.faults, due, at) else calm).append(at - due)
    return sorted(calm), sorted(near)


def near_fault(faults: list[Fault], since: float, until: float) -> bool:
    """Whether a fault, or its shadow, touches [since, until]."""
    return any(fault.start <= until and since <= fault.end + SHADOW for fault in faults)


class _Judge:
    """One job."""

    def __init__(self, history: History, job: Job, arrivals: list[Arrival], rows: dict[int, Run]) -> None:
        self.history, self.job, self.arrivals, self.rows = history, job, arrivals, rows
        self.gaps = [gap for gap in history.gaps if gap.job_id == job.job_id]
        self.by_run: dict[int, list[Arrival]] = defaultdict(list)
        for arrival in arrivals:
            self.by_run[arrival.nominal].append(arrival)
        self.must, self.may, self.named = self._expected()

    def all(self) -> Iterator[Finding]:
        yield from self._required()
        yield from self._unexpected()
        yield from self._times()
        yield from self._repeated()
        yield from self._overlaps()
        yield from self._ends()

    def _finding(self, verdict: str, nominal: int, detail: str) -> Finding:
        return Finding(verdict, self.job.name, nominal, detail)

    def _expected(self) -> tuple[set[int], set[int], set[int]]:
        """Nominal times that must run, that may run, and that any schedule of the job ever named."""
        must: set[int] = set()
        may: set[int] = set()
        named: set[int] = set()
        changes, ended = self.job.changes, self.history.ended
        for number, change in enumerate(changes):
            following = changes[number + 1] if number + 1 < len(changes) else Change("end", {}, ended, ended)
            if "at" in change.schedule:  # one that has passed is caught up
                must |= set(nominals(change.schedule, 0, following.start)) if change.end < ended else set()
                may |= set(nominals(change.schedule, 0, following.end))
                continue
            must |= set(nominals(change.schedule, change.end, min(following.start, ended) - 1e-6))
            may |= set(nominals(change.schedule, change.start, min(following.end, ended)))
            named |= set(nominals(change.schedule, change.start, ended))
        return must, may, named

    def _required(self) -> Iterator[Finding]:
        for nominal in sorted(self.must):
            run = self.rows.get(nominal)
            gap = any(gap.first <= nominal <= gap.last for gap in self.gaps)
            if run is None and not gap:
                yield self._finding("unaccounted", nominal, "neither a run nor a gap")
            if nominal in self.by_run:
                continue
            if run is None and gap:
                changed = any(
                    change.end >= nominal / 1e6 and change.what != "create" for change in self.job.changes
                )
                if not changed:
                    yield self._finding("missed", nominal, "recorded as a gap without a change of the job")
            elif run is None or not self._excused(run):
                yield self._finding("missed", nominal, f"no arrival; {run or 'no run'}")
        for run_id in self.job.manual:
            if int(run_id[-14:], 16) not in self.by_run and not self._deleted():
                yield self._finding("missed", int(run_id[-14:], 16), "a manual run never arrived")

    def _excused(self, run: Run) -> bool:
        limited = self.job.kind in ("skip", "queue")
        if run.status == "skipped" and limited:
            # Something held the place: an earlier run that had not ended, which may take several attempts.
            return any(
                earlier < run.nominal and run.nominal / 1e6 <= seen[-1].at + self.job.seconds + SHADOW
                for earlier, seen in self.by_run.items()
            )
        return run.status == "cancelled" and self._deleted()

    def _deleted(self) -> bool:
        return any(change.what == "delete" for change in self.job.changes)

    def _unexpected(self) -> Iterator[Finding]:
        manual = {int(run_id[-14:], 16) for run_id in self.job.manual}
        unknown = [n for n, run in self.rows.items() if run.origin == "manual" and n not in manual]
        if unknown:
            yield self._finding("double", unknown[0], f"{len(unknown)} manual runs that no call made")
        for nominal in self.by_run.keys() | self.rows.keys():
            if nominal in self.may or nominal in manual or nominal in unknown:
                continue
            verdict = "stale" if nominal in self.named else "phantom"
            if any(abs(nominal - other) < _SAME for other in self.may):
                verdict = "double"
            yield self._finding(verdict, nominal, "not a nominal time of the job at that time")

    def _times(self) -> Iterator[Finding]:
        scheduled = {n for n, run in self.rows.items() if run.origin == "schedule"}
        for nominal, arrivals in self.by_run.items():
            first, due = arrivals[0].at, nominal / 1e6
            if first < due and nominal in scheduled:
                yield self._finding("early", nominal, f"{due - first:.3f} s early")
            near = near_fault(self.history.faults, due, first) or self.job.kind in ("queue", "burst")
            called = [
                c for c in self.job.changes if c.start <= first and due <= c.end
            ]  # caught up after a slow call
            if first - due > LATE and nominal in scheduled and not near and not called:
                yield self._finding("late", nominal, f"{first - due:.3f} s late without a fault")

    def _repeated(self) -> Iterator[Finding]:
        for nominal, arrivals in self.by_run.items():
            for attempt, count in Counter(a.attempt for a in arrivals).items():
                if count > 1:
                    yield self._finding("double", nominal, f"attempt {attempt} arrived {count} times")
            for before, after in pairwise(arrivals):
                failed = before.attempt <= self.job.failures
                if not failed and not near_fault(self.history.faults, before.at - LATE, after.at):
                    yield self._finding(
                        "unjustified", nominal, f"attempt {after.attempt} without a failure or fault"
                    )

    def _overlaps(self) -> Iterator[Finding]:
        if self.job.kind not in ("skip", "queue"):
            return
        for before, after in pairwise(self.arrivals):
            lost = self.history.attempts.get((*before.run, before.attempt)) is not None
            if before.run != after.run and after.at < before.at + self.job.seconds - 0.05 and not lost:
                words = f"arrived {after.at - before.at:.3f} s after {before.nominal}, which takes {self.job.seconds} s"
                yield self._finding("overlap", after.nominal, words)

    def _ends(self) -> Iterator[Finding]:
        for nominal, run in self.rows.items():
            if run.status not in FINAL:
                yield self._finding("stuck", nominal, f"{run.status} at attempt {run.attempt}")
            elif run.status == "failed" or (run.status == "cancelled" and not self._deleted()):
                yield self._finding("wrong", nominal, f"{run.status}, {run.reason}, attempt {run.attempt}")
            elif run.status == "succeeded" and len(self.by_run.get(nominal, ())) <= self.job.failures:
                yield self._finding("wrong", nominal, "succeeded before the target had answered well")
