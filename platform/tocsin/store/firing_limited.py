"""Firing of jobs whose overlap policy is `skip` or `queue`, inside the transaction of `firing.fire`.

Triggers are locked, then the job rows; only then are live runs counted, in a statement of its own whose
snapshot is younger than the locks. Finishing a limited run takes the same job lock, so a run that ends and a
run that starts to wait cannot miss each other. Row by row, hence slower than the set-based path; the work is
bounded by the batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tocsin.model.policy import Admission, CatchUpDecision, Limit, admit
from tocsin.model.status import Overlap, RunStatus, TriggerKind
from tocsin.store import firing_sql as sql
from tocsin.store.partitions import Connection, QueuedRun, queued_run
from tocsin.store.plans import PlanCache

JobKey = tuple[int, UUID]


@dataclass(frozen=True, slots=True)
class _Trigger:
    partition: int
    job_id: UUID
    scheduled_at: datetime
    kind: str
    fire_at: datetime
    spec_id: int | None
    job_version: int
    jitter_us: int
    attempt: int


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    tier: str
    pool: str
    task_kind: str
    version: int
    active: bool
    limit: Limit


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A run that asks for a place: `status` None when it does not exist yet."""

    nominal: datetime
    status: str | None


@dataclass(slots=True)
class LimitedResult:
    """What became of the limited triggers of a batch."""

    runs: list[QueuedRun] = field(default_factory=list)
    due: int = 0
    stale: int = 0
    skipped: int = 0
    waiting: int = 0
    gaps: int = 0
    advanced: list[tuple[int, datetime]] = field(default_factory=list)  # partition, next nominal time


def fire_limited(conn: Connection, plans: PlanCache, args: dict[str, Any]) -> LimitedResult:
    """Handle every due limited trigger of these partitions."""
    result = LimitedResult()
    triggers = [_Trigger(*row) for row in conn.execute(sql.LOCK_LIMITED, args)]
    result.due = len(triggers)
    if not triggers:
        return result
    jobs = _lock_jobs(conn, triggers)
    made = plans.prepare(
        conn, ((t.spec_id, t.scheduled_at) for t in triggers if t.spec_id is not None), args["now"]
    )
    candidates: dict[JobKey, list[_Candidate]] = defaultdict(list)
    removed: list[_Trigger] = []
    advanced: list[tuple[_Trigger, datetime]] = []
    gaps: list[tuple[_Trigger, CatchUpDecision]] = []
    states = _run_states(conn, [t for t in triggers if t.kind == TriggerKind.RUN])
    for trigger in triggers:
        key = (trigger.partition, trigger.job_id)
        job = jobs[key]
        if trigger.kind == TriggerKind.RUN:
            removed.append(trigger)
            status = states.get((*key, trigger.scheduled_at))
            if status in (RunStatus.SCHEDULED, RunStatus.WAITING):
                candidates[key].append(_Candidate(trigger.scheduled_at, status))
            continue
        plan = made.get((trigger.spec_id or 0, trigger.scheduled_at))
        if trigger.job_version != job.version or not job.active:
            removed.append(trigger)
            result.stale += 1
        elif plan is not None:
            _follow(trigger, plan, candidates[key], removed, advanced, gaps)
    _move(conn, removed, advanced)
    result.advanced = [(trigger.partition, following) for trigger, following in advanced]
    result.gaps = _record(conn, gaps)
    _admit(conn, jobs, {k: c for k, c in candidates.items() if c}, args["now"], result)
    return result


def _follow(
    trigger: _Trigger,
    plan: CatchUpDecision,
    candidates: list[_Candidate],
    removed: list[_Trigger],
    advanced: list[tuple[_Trigger, datetime]],
    gaps: list[tuple[_Trigger, CatchUpDecision]],
) -> None:
    if plan.fire is not None:
        candidates.append(_Candidate(plan.fire, None))
    if plan.gap is not None:
        gaps.append((trigger, plan))
    if plan.next is None:
        removed.append(trigger)
    else:
        advanced.append((trigger, plan.next))


def _lock_jobs(conn: Connection, triggers: Sequence[_Trigger]) -> dict[JobKey, _Job]:
    rows = conn.execute(sql.LOCK_JOBS, ([t.partition for t in triggers], [t.job_id for t in triggers]))
    return {
        (row[0], row[1]): _Job(
            name=row[2],
            tier=row[3],
            pool=row[10],
            task_kind=row[4],
            version=row[5],
            active=row[6],
            limit=Limit(overlap=Overlap(row[7]), max_running=row[8], queue_limit=row[9]),
        )
        for row in rows
    }


def _run_states(conn: Connection, triggers: Sequence[_Trigger]) -> dict[tuple[int, UUID, datetime], str]:
    if not triggers:
        return {}
    keys = ([t.partition for t in triggers], [t.job_id for t in triggers], [t.scheduled_at for t in triggers])
    return {(p, j, at): status for p, j, at, status in conn.execute(sql.READ_RUNS, keys)}


def _move(
    conn: Connection, removed: Sequence[_Trigger], advanced: Sequence[tuple[_Trigger, datetime]]
) -> None:
    if removed:
        conn.execute(sql.REMOVE_TRIGGERS, _trigger_keys(removed))
    if advanced:
        nexts = [following for _, following in advanced]
        conn.execute(sql.ADVANCE_LIMITED, (*_trigger_keys([t for t, _ in advanced]), nexts))


def _trigger_keys(triggers: Sequence[_Trigger]) -> tuple[list[Any], ...]:
    return (
        [t.partition for t in triggers],
        [t.fire_at for t in triggers],
        [t.job_id for t in triggers],
        [t.scheduled_at for t in triggers],
    )


def _record(conn: Connection, gaps: Sequence[tuple[_Trigger, CatchUpDecision]]) -> int:
    rows = [(t, plan.gap) for t, plan in gaps if plan.gap is not None]
    if rows:
        conn.execute(
            sql.INSERT_GAPS,
            (
                [t.partition for t, _ in rows],
                [t.job_id for t, _ in rows],
                [gap.first for _, gap in rows],
                [gap.last for _, gap in rows],
                [gap.count for _, gap in rows],
                [gap.at_least for _, gap in rows],
                [t.job_version for t, _ in rows],
            ),
        )
    return len(rows)


_OUTCOME = {
    Admission.QUEUED: (RunStatus.QUEUED, None),
    Admission.WAITING: (RunStatus.WAITING, None),
    Admission.OVERLAP: (RunStatus.SKIPPED, "overlap"),
    Admission.QUEUE_FULL: (RunStatus.SKIPPED, "queue_full"),
}


def _admit(
    conn: Connection,
    jobs: dict[JobKey, _Job],
    candidates: dict[JobKey, list[_Candidate]],
    now: datetime,
    result: LimitedResult,
) -> None:
    """Give each candidate a place, a place in the queue, or a recorded skip."""
    if not candidates:
        return
    keys = list(candidates)
    counted = conn.execute(sql.COUNT_LIVE, ([p for p, _ in keys], [j for _, j in keys]))
    live = {(p, j): (active, waiting) for p, j, active, waiting in counted}
    new: list[tuple[Any, ...]] = []
    old: list[tuple[Any, ...]] = []
    for key, wanting in candidates.items():
        job = jobs[key]
        # A released run goes before a new one, then by nominal time.
        wanting.sort(key=lambda c: (c.status != RunStatus.WAITING, c.nominal))
        verdicts = admit(job.limit, *live.get(key, (0, 0)), [c.status == RunStatus.WAITING for c in wanting])
        for candidate, verdict in zip(wanting, verdicts, strict=True):
            status, reason = _OUTCOME[verdict]
            row = (*key, candidate.nominal, str(status), reason)
            if candidate.status is None:
                new.append((*row, job.version, job.tier, job.task_kind))
            else:
                old.append(row)
    for statement, rows, names in (
        (sql.INSERT_LIMITED, new, _NEW_NAMES),
        (sql.UPDATE_LIMITED, old, _NEW_NAMES[:5]),
    ):
        if not rows:
            continue
        columns = dict(zip(names, (list(column) for column in zip(*rows, strict=True)), strict=True))
        for row in conn.execute(statement, {**columns, "now": now}):
            _note(row, jobs, result)


_NEW_NAMES = ("partitions", "jobs", "nominals", "statuses", "reasons", "versions", "tiers", "kinds")


def _note(row: Sequence[Any], jobs: dict[JobKey, _Job], result: LimitedResult) -> None:
    match row[6]:
        case RunStatus.QUEUED:
            job = jobs[row[0], row[1]]
            result.runs.append(queued_run((*row[:6], job.name, job.pool)))
        case RunStatus.WAITING:
            result.waiting += 1
        case RunStatus.SKIPPED:
            result.skipped += 1
