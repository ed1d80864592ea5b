"""The verdict over one seed, from its history alone; pure.

What must have run is computed by the slow oracle from the acknowledged calls: a nominal time that lies after the
answer to the call that set the schedule and before the next call was sent. What may have run takes the calls'
whole windows. The witness's log says what did run; tocsin's tables are only asked for the outcome it claims.

missed        a nominal time that had to run has no arrival, and no outcome that excuses it; or a gap that the job's
              catch-up policy does not make
unaccounted   a nominal time that had to run has neither a run nor a gap in the tables
early         an arrival before its nominal time
late          an arrival that waited more than LATE seconds (a burst: BURST) outside of faults that concern it and their reach, or
              more than PATIENCE seconds outside of the faults alone, however many there were
phantom       an arrival at a nominal time that no schedule of its job names
stale         the same, when an older schedule of the job names it: an edit, pause or delete came too late
double        the same attempt of a run arrived twice, or two runs stand for one nominal time
unjustified   a further attempt, though the target had not failed, or nothing had happened to the worker that held it
              that can cost a lease, or the attempt before it has no recorded end
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

from chaos.catchup import judge_gaps, judge_kept
from chaos.history import DROPPING, Arrival, Change, History, Job, Run, nominals
from chaos.times import BURST, LATE, PATIENCE, concerning, outside, unjustified

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


class _Judge:
    """One job."""

    def __init__(self, history: History, job: Job, arrivals: list[Arrival], rows: dict[int, Run]) -> None:
        self.history, self.job, self.arrivals, self.rows = history, job, arrivals, rows
        self.faults = concerning(history, job.job_id)
        self.gaps = [gap for gap in history.gaps if gap.job_id == job.job_id]
        self.by_run: dict[int, list[Arrival]] = defaultdict(list)
        for arrival in arrivals:
            self.by_run[arrival.nominal].append(arrival)
        self.must, self.may, self.named = self._expected()

    def all(self) -> Iterator[Finding]:
        yield from self._required()
        yield from self._dropped()
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
                if self.job.kind in DROPPING:
                    continue  # see _dropped
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

    def _dropped(self) -> Iterator[Finding]:
        for told in judge_gaps(self.job, self.gaps, self.must, self.faults):
            yield self._finding(*told)
        for told in judge_kept(self.job, self.rows.values(), self.must):
            yield self._finding(*told)

    def _excused(self, run: Run) -> bool:
        limited = self.job.kind in ("skip", "queue")
        if run.status == "skipped" and limited:
            # Something held the place: an earlier run that had not ended, which faults can make longer.
            return any(
                outside(self.faults, seen[-1].at + self.job.seconds, run.nominal / 1e6, reach=True) <= LATE
                for earlier, seen in self.by_run.items()
                if earlier < run.nominal
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
        for nominal in self.by_run.keys() & scheduled:
            first, due = self.by_run[nominal][0].at, nominal / 1e6
            if first < due:
                yield self._finding("early", nominal, f"{due - first:.3f} s early")
            # One that came up while a call was pending is caught up when the call is through.
            called = any(c.start <= first and due <= c.end for c in self.job.changes)
            if not called and self.job.kind != "queue":
                yield from self._late(nominal, due, first)

    def _late(self, nominal: int, due: float, first: float) -> Iterator[Finding]:
        calm = outside(self.faults, due, first, reach=True)
        quiet = outside(self.faults, due, first, reach=False)
        if calm > (BURST if self.job.kind == "burst" else LATE) or quiet > PATIENCE:
            words = (
                f"{first - due:.3f} s late, {quiet:.3f} s without a fault, {calm:.3f} s of it far from any"
            )
            yield self._finding("late", nominal, words)

    def _repeated(self) -> Iterator[Finding]:
        for nominal, arrivals in self.by_run.items():
            for attempt, count in Counter(a.attempt for a in arrivals).items():
                if count > 1:
                    yield self._finding("double", nominal, f"attempt {attempt} arrived {count} times")
            for before, after in pairwise(arrivals):
                if why := unjustified(self.history, before, after, self.job.failures):
                    yield self._finding("unjustified", nominal, f"attempt {after.attempt}: {why}")

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
