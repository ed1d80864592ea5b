"""The statements of reaping and sweeping, kept together."""

# Index: runs_leased of each day, jobs_pkey. Cost: the expired ones only.
EXPIRED = """
SELECT r.partition_id, r.job_id, r.scheduled_at, r.lease_token, r.limited
FROM runs r
WHERE r.partition_id = ANY(%(partitions)s) AND r.status = 'running' AND r.lease_expires_at < %(now)s
ORDER BY r.lease_expires_at LIMIT %(limit)s
"""

# Index: runs_pkey of the nominal day. An attempt past its deadline was cut by the timeout; any other lost its worker.
REAP = """
WITH lost AS MATERIALIZED (
    SELECT r.*, j.name, j.pool, (j.definition -> 'retryPolicy' ->> 'maxAttempts')::int AS max_attempts,
           CASE WHEN r.deadline_at <= %(now)s THEN 'timeout' ELSE 'lease_expired' END AS why
    FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(tokens)s::uuid[])
         AS k (partition_id, job_id, scheduled_at, lease_token)
    JOIN runs r ON r.partition_id = k.partition_id AND r.job_id = k.job_id AND r.scheduled_at = k.scheduled_at
    JOIN jobs j ON j.partition_id = k.partition_id AND j.job_id = k.job_id
    WHERE r.status = 'running' AND r.lease_token = k.lease_token AND r.lease_expires_at < %(now)s
    FOR UPDATE OF r SKIP LOCKED
), verdict AS MATERIALIZED (
    SELECT *, CASE WHEN cancel_requested THEN 'cancelled' WHEN attempt < max_attempts THEN 'queued' ELSE 'failed' END
              AS outcome,
           CASE WHEN starts_with(lease_owner, 'callback:') THEN 'the target did not call back within the timeout'
                    WHEN why = 'timeout' THEN 'the attempt ran past its deadline and its worker did not say so'
                    ELSE 'the worker ' || coalesce(lease_owner, '?') || ' stopped renewing its lease' END AS words
    FROM lost
), history AS (
    INSERT INTO attempts (partition_id, job_id, scheduled_at, attempt, started_at, finished_at, lease_owner, reason, error)
    SELECT partition_id, job_id, scheduled_at, attempt, attempt_started_at, %(now)s, lease_owner, why, words
    FROM verdict WHERE outcome = 'queued' ON CONFLICT DO NOTHING
)
UPDATE runs r SET status = v.outcome,
    attempt = CASE WHEN v.outcome = 'queued' THEN v.attempt + 1 ELSE v.attempt END,
    fired_at = CASE WHEN v.outcome = 'queued' THEN %(now)s ELSE r.fired_at END,
    finished_at = CASE WHEN v.outcome <> 'queued' THEN %(now)s END,
    reason = CASE WHEN v.outcome = 'cancelled' THEN 'cancelled' ELSE v.why END, error = v.words,
    lease_owner = CASE WHEN v.outcome = 'queued' THEN NULL ELSE r.lease_owner END,
    lease_token = NULL, lease_expires_at = NULL, deadline_at = NULL
FROM verdict v
WHERE r.partition_id = v.partition_id AND r.job_id = v.job_id AND r.scheduled_at = v.scheduled_at
RETURNING r.partition_id, r.job_id, r.scheduled_at, r.attempt, r.tier, r.task_kind, v.name, r.status, v.pool
"""

# Index: runs_limited. Gives the oldest waiting runs of these jobs triggers, as many as there is room for.
RELEASE = """
INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, attempt, limited)
SELECT w.partition_id, clock_timestamp(), w.job_id, w.scheduled_at, 'run', w.job_version, 1, true
FROM (
    SELECT r.partition_id, r.job_id, r.scheduled_at, r.status, r.job_version, j.max_running,
           count(*) FILTER (WHERE r.status IN ('queued', 'running') OR (r.status = 'scheduled' AND r.attempt > 0))
               OVER job AS active,
           count(*) FILTER (WHERE r.status = 'waiting') OVER (job ORDER BY r.scheduled_at) AS place
    FROM runs r JOIN jobs j ON j.partition_id = r.partition_id AND j.job_id = r.job_id
    WHERE r.partition_id = ANY(%(partitions)s) AND r.limited
      AND r.status IN ('scheduled', 'waiting', 'queued', 'running')
    WINDOW job AS (PARTITION BY r.partition_id, r.job_id)
) w
WHERE w.status = 'waiting' AND w.active + w.place <= w.max_running
  AND NOT EXISTS (SELECT FROM triggers t WHERE t.partition_id = w.partition_id AND t.job_id = w.job_id
                  AND t.scheduled_at = w.scheduled_at AND t.kind = 'run')
ON CONFLICT DO NOTHING
RETURNING 1
"""

# Index: runs_queued. A message can be lost to more than a crash; one that is merely late is harmless twice.
UNCLAIMED = """
WITH old AS (
    SELECT r.partition_id, r.job_id, r.scheduled_at FROM runs r
    WHERE r.partition_id = ANY(%(partitions)s) AND r.status = 'queued' AND r.fired_at < %(now)s - %(age)s
    ORDER BY r.fired_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE runs r SET fired_at = %(now)s
FROM old o JOIN jobs j ON j.partition_id = o.partition_id AND j.job_id = o.job_id
WHERE r.partition_id = o.partition_id AND r.job_id = o.job_id AND r.scheduled_at = o.scheduled_at
RETURNING r.partition_id, r.job_id, r.scheduled_at, r.attempt, r.tier, r.task_kind, j.name, j.pool
"""
