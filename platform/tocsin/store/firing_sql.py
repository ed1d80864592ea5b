"""The hot statements of firing, kept together. Parameters are named; `now` is the database's own instant.

Triggers are joined by ctid inside one statement, after FOR UPDATE SKIP LOCKED has pinned them: no other way is as
cheap for the planner. The partition beside it says nothing new; it keeps the join inside one. A trigger that an edit changed between the statement's snapshot and the lock comes back
with the newer `job_version`, which the snapshot's job row does not have: it is neither fired nor removed, and
the next look finds it whole.
"""

# Index: triggers_pkey, one probe a partition. Cost: what is due within the horizon, `limit` rows a partition.
LOOK_AHEAD = """
SELECT o.partition_id,
       date_bin('20 ms', t.fire_at + interval '19999 microseconds', 'epoch'),
       t.spec_id, t.scheduled_at, count(*), (SELECT clock_timestamp())
FROM unnest(%(partitions)s::int2[]) AS o (partition_id)
CROSS JOIN LATERAL (
    SELECT fire_at, spec_id, scheduled_at FROM triggers t
    WHERE t.partition_id = o.partition_id
      AND t.fire_at <= (SELECT clock_timestamp()) + %(horizon)s
    ORDER BY t.fire_at LIMIT %(limit)s
) t
GROUP BY 1, 2, 3, 4
"""

# Index: triggers_pkey, jobs_pkey, runs_pkey of the day. Cost: one heap insert and one trigger update a run.
FIRE = """
WITH plan AS MATERIALIZED (
    SELECT * FROM unnest(
        %(spec_ids)s::int8[], %(nominals)s::timestamptz[], %(fires)s::timestamptz[], %(nexts)s::timestamptz[],
        %(gap_firsts)s::timestamptz[], %(gap_lasts)s::timestamptz[], %(gap_counts)s::int8[], %(gap_caps)s::bool[]
    ) AS plan (spec_id, scheduled_at, fire, next, gap_first, gap_last, gap_count, gap_cap)
), due AS MATERIALIZED (
    SELECT t.* FROM unnest(%(partitions)s::int2[]) AS o (partition_id)
    CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.partition_id, t.job_id, t.scheduled_at, t.spec_id, t.job_version, t.jitter_us
        FROM triggers t
        WHERE t.partition_id = o.partition_id AND t.fire_at <= %(now)s AND t.kind = 'schedule' AND NOT t.limited
        ORDER BY t.fire_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) t
), ready AS MATERIALIZED (
    SELECT d.*, p.fire, p.next, p.gap_first, p.gap_last, p.gap_count, p.gap_cap,
           j.name, j.tier, j.pool, j.task_kind, j.version,
           d.job_version = j.version AND NOT j.paused AND j.deleted_at IS NULL AS fresh
    FROM due d
    JOIN plan p ON p.spec_id = d.spec_id AND p.scheduled_at = d.scheduled_at
    JOIN jobs j ON j.partition_id = d.partition_id AND j.job_id = d.job_id
), fired AS (
    INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier, task_kind,
                      fired_at, created_at)
    SELECT partition_id, job_id, fire, 'queued', 'schedule', 1, version, tier, task_kind, %(now)s, %(now)s
    FROM ready WHERE fresh AND fire IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING job_id
), advanced AS (
    UPDATE triggers t
    SET scheduled_at = r.next,
        fire_at = CASE WHEN r.jitter_us = 0 THEN r.next ELSE r.next + jitter_of(r.job_id, r.next, r.jitter_us) END
    FROM ready r
    WHERE t.ctid = r.row AND t.partition_id = r.partition_id AND r.fresh AND r.next IS NOT NULL
), removed AS (
    DELETE FROM triggers t USING ready r
    WHERE t.ctid = r.row AND t.partition_id = r.partition_id
      AND (r.job_version < r.version OR (r.fresh AND r.next IS NULL))
    RETURNING r.fresh
), gap AS (
    INSERT INTO gaps (partition_id, job_id, first_at, last_at, count, at_least, job_version)
    SELECT partition_id, job_id, gap_first, gap_last, gap_count, gap_cap, version
    FROM ready WHERE fresh AND gap_first IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING 1
)
-- IS TRUE keeps the planner from making a join of it, row by row when it expects few: the keys are hashed. A job has
-- one such trigger.
SELECT r.partition_id, r.job_id, r.fire, 1, r.tier, r.task_kind, r.name, 'run', r.pool
FROM ready r WHERE (r.job_id IN (SELECT f.job_id FROM fired f)) IS TRUE
UNION ALL
SELECT min(d.partition_id), NULL, d.scheduled_at, count(*), NULL, NULL, NULL, 'unplanned:' || d.spec_id, NULL
FROM due d WHERE NOT EXISTS (
    SELECT FROM plan p WHERE p.spec_id = d.spec_id AND p.scheduled_at = d.scheduled_at
) GROUP BY d.spec_id, d.scheduled_at
UNION ALL
SELECT NULL, NULL, NULL, count(*) FILTER (WHERE NOT fresh), NULL, NULL, NULL, 'stale', NULL FROM removed
UNION ALL
SELECT NULL, NULL, NULL, count(*), NULL, NULL, NULL, 'gaps', NULL FROM gap
UNION ALL
SELECT NULL, NULL, NULL, count(*), NULL, NULL, NULL, 'due', NULL FROM due
"""

# Index: triggers_pkey; runs_pkey of the nominal day. A retry, or a manual run of a job that allows overlap.
SEND = """
WITH due AS MATERIALIZED (
    SELECT t.* FROM unnest(%(partitions)s::int2[]) AS o (partition_id)
    CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.partition_id, t.job_id, t.scheduled_at, t.attempt
        FROM triggers t
        WHERE t.partition_id = o.partition_id AND t.fire_at <= %(now)s AND t.kind = 'run' AND NOT t.limited
        ORDER BY t.fire_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) t
), sent AS (
    UPDATE runs r SET status = 'queued', attempt = d.attempt, fired_at = %(now)s
    FROM due d
    WHERE r.partition_id = d.partition_id AND r.job_id = d.job_id AND r.scheduled_at = d.scheduled_at
      AND r.status = 'scheduled'
      AND (r.attempt = d.attempt - 1 OR (r.attempt = d.attempt AND r.reason = 'handed_over'))
    RETURNING r.partition_id, r.job_id, r.scheduled_at, r.attempt, r.tier, r.task_kind
), removed AS (
    DELETE FROM triggers t USING due d WHERE t.ctid = d.row AND t.partition_id = d.partition_id RETURNING 1
)
SELECT s.partition_id, s.job_id, s.scheduled_at, s.attempt, s.tier, s.task_kind, j.name, 'run', j.pool
FROM sent s JOIN jobs j ON j.partition_id = s.partition_id AND j.job_id = s.job_id
UNION ALL
SELECT NULL, NULL, NULL, count(*), NULL, NULL, NULL, 'due', NULL FROM due
"""

# Index: triggers_pkey. Triggers of jobs with an overlap policy: they are decided one job at a time.
LOCK_LIMITED = """
SELECT t.* FROM unnest(%(partitions)s::int2[]) AS o (partition_id)
CROSS JOIN LATERAL (
    SELECT t.partition_id, t.job_id, t.scheduled_at, t.kind, t.fire_at, t.spec_id, t.job_version, t.jitter_us,
           t.attempt
    FROM triggers t
    WHERE t.partition_id = o.partition_id AND t.fire_at <= %(now)s AND t.limited
    ORDER BY t.fire_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) t
"""

# Index: jobs_pkey; in key order, as everybody locks jobs.
LOCK_JOBS = """
SELECT j.partition_id, j.job_id, j.name, j.tier, j.task_kind, j.version,
       NOT j.paused AND j.deleted_at IS NULL, j.overlap, j.max_running, j.queue_limit, j.pool
FROM jobs j JOIN (SELECT DISTINCT * FROM unnest(%s::int2[], %s::uuid[])) AS k (partition_id, job_id)
  ON j.partition_id = k.partition_id AND j.job_id = k.job_id
ORDER BY j.partition_id, j.job_id FOR NO KEY UPDATE OF j
"""

# Index: runs_limited of each day. Cost: the live runs of these jobs, bounded by max_running and queue_limit.
COUNT_LIVE = """
SELECT r.partition_id, r.job_id,
       count(*) FILTER (WHERE r.status IN ('queued', 'running') OR (r.status = 'scheduled' AND r.attempt > 0)),
       count(*) FILTER (WHERE r.status = 'waiting')
FROM (SELECT DISTINCT * FROM unnest(%s::int2[], %s::uuid[])) AS k (partition_id, job_id)
JOIN runs r ON r.partition_id = k.partition_id AND r.job_id = k.job_id
WHERE r.limited AND r.status IN ('scheduled', 'waiting', 'queued', 'running')
GROUP BY 1, 2
"""

READ_RUNS = """
SELECT r.partition_id, r.job_id, r.scheduled_at, r.status
FROM unnest(%s::int2[], %s::uuid[], %s::timestamptz[]) AS k (partition_id, job_id, scheduled_at)
JOIN runs r USING (partition_id, job_id, scheduled_at)
"""

INSERT_LIMITED = """
INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier, task_kind, limited,
                  fired_at, finished_at, reason, created_at)
SELECT k.partition_id, k.job_id, k.scheduled_at, k.status, 'schedule', (k.status = 'queued')::int, k.version, k.tier,
       k.task_kind, true, CASE WHEN k.status = 'queued' THEN %(now)s END,
       CASE WHEN k.status = 'skipped' THEN %(now)s END, k.reason, %(now)s
FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(statuses)s::text[],
            %(reasons)s::text[], %(versions)s::int4[], %(tiers)s::text[], %(kinds)s::text[])
     AS k (partition_id, job_id, scheduled_at, status, reason, version, tier, task_kind)
ON CONFLICT DO NOTHING
RETURNING partition_id, job_id, scheduled_at, attempt, tier, task_kind, status
"""

UPDATE_LIMITED = """
UPDATE runs r SET status = k.status, reason = k.reason, attempt = CASE WHEN k.status = 'queued' THEN 1 ELSE 0 END,
       fired_at = CASE WHEN k.status = 'queued' THEN %(now)s ELSE r.fired_at END,
       finished_at = CASE WHEN k.status = 'skipped' THEN %(now)s END
FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(statuses)s::text[],
            %(reasons)s::text[]) AS k (partition_id, job_id, scheduled_at, status, reason)
WHERE r.partition_id = k.partition_id AND r.job_id = k.job_id AND r.scheduled_at = k.scheduled_at
  AND r.status IN ('scheduled', 'waiting')
RETURNING r.partition_id, r.job_id, r.scheduled_at, r.attempt, r.tier, r.task_kind, r.status
"""

ADVANCE_LIMITED = """
UPDATE triggers t SET scheduled_at = k.next, fire_at = k.next + jitter_of(t.job_id, k.next, t.jitter_us)
FROM unnest(%s::int2[], %s::timestamptz[], %s::uuid[], %s::timestamptz[], %s::timestamptz[])
     AS k (partition_id, fire_at, job_id, scheduled_at, next)
WHERE t.partition_id = k.partition_id AND t.fire_at = k.fire_at AND t.job_id = k.job_id
  AND t.scheduled_at = k.scheduled_at
"""

REMOVE_TRIGGERS = """
DELETE FROM triggers t
USING unnest(%s::int2[], %s::timestamptz[], %s::uuid[], %s::timestamptz[])
      AS k (partition_id, fire_at, job_id, scheduled_at)
WHERE t.partition_id = k.partition_id AND t.fire_at = k.fire_at AND t.job_id = k.job_id
  AND t.scheduled_at = k.scheduled_at
"""

INSERT_GAPS = """
INSERT INTO gaps (partition_id, job_id, first_at, last_at, count, at_least, job_version)
SELECT * FROM unnest(%s::int2[], %s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::int8[], %s::bool[], %s::int4[])
ON CONFLICT DO NOTHING
"""
