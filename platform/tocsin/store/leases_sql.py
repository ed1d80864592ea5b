"""The statements of claim, heartbeat and finish, kept together.

Each takes its keys as arrays and locks the runs in key order before it changes them, so two workers that hold
the same messages in different orders wait for each other at most once. A row that changed while its lock was
awaited is judged by its newest version: the loser of a claim sees `running`. `low` and `high` bound the
nominal times, so that the planner looks at those day partitions only. The clock is read once a statement.
"""

# Index: runs_pkey of the nominal days, jobs_pkey. Cost: three probes and one new row version a run.
# A claim whose commit was not heard of is repeated with the same token, and finds its own rows.
CLAIM = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), mine AS MATERIALIZED (
    SELECT r.partition_id, r.job_id, r.scheduled_at, a.token, j.name, j.timeout_us, j.owner,
           j.definition -> 'task' AS task, j.definition -> 'retryPolicy' AS retry,
           j.definition -> 'schedule' ->> 'timeZone' AS zone,
           coalesce((j.definition -> 'task' -> 'docker' ->> 'stopGraceSec')::float8, 0) * interval '1 second' AS grace
    FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(attempts)s::int4[],
                %(tokens)s::uuid[]) AS a (partition_id, job_id, scheduled_at, attempt, token)
    JOIN runs r ON r.partition_id = a.partition_id AND r.job_id = a.job_id AND r.scheduled_at = a.scheduled_at
    JOIN jobs j ON j.partition_id = a.partition_id AND j.job_id = a.job_id
    WHERE r.scheduled_at BETWEEN %(low)s AND %(high)s AND r.attempt = a.attempt
      AND (r.status = 'queued' OR (r.status = 'running' AND r.lease_token = a.token))
    ORDER BY r.partition_id, r.job_id, r.scheduled_at
    FOR NO KEY UPDATE OF r
)
UPDATE runs r SET status = 'running', lease_owner = %(owner)s, lease_token = m.token,
       lease_expires_at = c.now + %(lease)s, started_at = coalesce(r.started_at, c.now),
       attempt_started_at = c.now, reason = NULL, error = NULL, http_status = NULL,
       deadline_at = c.now + m.timeout_us * interval '1 microsecond' + m.grace
FROM mine m, clock c
WHERE r.partition_id = m.partition_id AND r.job_id = m.job_id AND r.scheduled_at = m.scheduled_at
  AND r.scheduled_at BETWEEN %(low)s AND %(high)s
RETURNING r.job_id, r.scheduled_at, r.attempt, m.token, m.name, m.task, m.retry, m.timeout_us, r.limited,
          r.cancel_requested, r.started_at, m.owner, m.zone
"""

# Index: runs_pkey of the nominal days. Cost: two probes and one new row version a run. The lease is not
# renewed beyond the deadline: a worker that hangs but still beats cannot keep a run for ever. One that has been
# handed over to a callback has its lease until the deadline, which a late heartbeat must not shorten.
HEARTBEAT = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), mine AS MATERIALIZED (
    SELECT r.partition_id, r.job_id, r.scheduled_at
    FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(attempts)s::int4[],
                %(tokens)s::uuid[]) AS a (partition_id, job_id, scheduled_at, attempt, token)
    JOIN runs r ON r.partition_id = a.partition_id AND r.job_id = a.job_id AND r.scheduled_at = a.scheduled_at
    WHERE r.scheduled_at BETWEEN %(low)s AND %(high)s AND r.status = 'running' AND r.attempt = a.attempt
      AND r.lease_token = a.token AND starts_with(r.lease_owner, 'callback:') IS NOT TRUE
    ORDER BY r.partition_id, r.job_id, r.scheduled_at
    FOR NO KEY UPDATE OF r
)
UPDATE runs r SET lease_expires_at = least(c.now + %(lease)s, r.deadline_at + %(grace)s)
FROM mine m, clock c
WHERE r.partition_id = m.partition_id AND r.job_id = m.job_id AND r.scheduled_at = m.scheduled_at
  AND r.scheduled_at BETWEEN %(low)s AND %(high)s
RETURNING r.job_id, r.scheduled_at, r.cancel_requested
"""

# Index: runs_pkey of the nominal days. Cost: two probes and one new row version a run. Repeating it changes nothing.
# A run that somebody wants to cancel is not handed over: nobody would see it.
HAND_OVER = """
WITH mine AS MATERIALIZED (
    SELECT r.partition_id, r.job_id, r.scheduled_at, a.http_status
    FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(attempts)s::int4[],
                %(tokens)s::uuid[], %(http_statuses)s::int2[])
         AS a (partition_id, job_id, scheduled_at, attempt, token, http_status)
    JOIN runs r ON r.partition_id = a.partition_id AND r.job_id = a.job_id AND r.scheduled_at = a.scheduled_at
    WHERE r.scheduled_at BETWEEN %(low)s AND %(high)s AND r.status = 'running' AND r.attempt = a.attempt
      AND r.lease_token = a.token AND NOT r.cancel_requested
    ORDER BY r.partition_id, r.job_id, r.scheduled_at
    FOR NO KEY UPDATE OF r
)
UPDATE runs r SET lease_expires_at = r.deadline_at, http_status = m.http_status,
       lease_owner = CASE WHEN starts_with(r.lease_owner, 'callback:') THEN r.lease_owner ELSE 'callback:' || r.lease_owner END
FROM mine m
WHERE r.partition_id = m.partition_id AND r.job_id = m.job_id AND r.scheduled_at = m.scheduled_at
  AND r.scheduled_at BETWEEN %(low)s AND %(high)s
RETURNING r.job_id, r.scheduled_at
"""

# Index: jobs_pkey; in key order, as everybody locks jobs, and before the runs.
LOCK_JOBS = """
SELECT 1 FROM jobs j JOIN (SELECT DISTINCT * FROM unnest(%s::int2[], %s::uuid[])) AS k (partition_id, job_id)
  ON j.partition_id = k.partition_id AND j.job_id = k.job_id
ORDER BY j.partition_id, j.job_id FOR NO KEY UPDATE OF j
"""

# Index: runs_pkey of the nominal days. Cost: two probes and one new row version a run; for a retry one row in
# attempts and one in triggers more, for an attempt that goes on elsewhere the trigger alone; one row for each output. Outputs are joined by number (`n`), so that
# their bytes are neither sorted nor kept in a CTE.
FINISH = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), held AS MATERIALIZED (
    SELECT r.partition_id, r.job_id, r.scheduled_at, r.attempt, r.attempt_started_at, r.lease_owner, r.job_version,
           a.n, a.ending, a.reason, a.error, a.http_status, a.delay,
           CASE WHEN a.ending NOT IN ('retry', 'resume') THEN a.ending WHEN r.cancel_requested THEN 'cancelled' ELSE 'scheduled' END AS status
    FROM unnest(%(partitions)s::int2[], %(jobs)s::uuid[], %(nominals)s::timestamptz[], %(attempts)s::int4[],
                %(tokens)s::uuid[], %(endings)s::text[], %(reasons)s::text[], %(errors)s::text[],
                %(http_statuses)s::int2[], %(delays)s::interval[])
         WITH ORDINALITY AS a (partition_id, job_id, scheduled_at, attempt, token, ending, reason, error, http_status,
                               delay, n)
    JOIN runs r ON r.partition_id = a.partition_id AND r.job_id = a.job_id AND r.scheduled_at = a.scheduled_at
    WHERE r.scheduled_at BETWEEN %(low)s AND %(high)s AND r.status = 'running' AND r.attempt = a.attempt
      AND r.lease_token = a.token
    ORDER BY r.partition_id, r.job_id, r.scheduled_at
    FOR NO KEY UPDATE OF r
), history AS (
    INSERT INTO attempts (partition_id, job_id, scheduled_at, attempt, started_at, finished_at, lease_owner, http_status,
                          reason, error)
    SELECT partition_id, job_id, scheduled_at, attempt, attempt_started_at, c.now, lease_owner, http_status, reason, error
    FROM held, clock c WHERE status = 'scheduled' AND ending = 'retry' ON CONFLICT DO NOTHING
), trigger AS (
    INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, attempt, limited)
    SELECT partition_id, c.now + delay, job_id, scheduled_at, 'run', job_version,
           CASE ending WHEN 'retry' THEN attempt + 1 ELSE attempt END, false
    FROM held, clock c WHERE status = 'scheduled'
), output AS (
    INSERT INTO run_outputs (partition_id, job_id, scheduled_at, attempt, content_type, size, truncated, content)
    SELECT h.partition_id, h.job_id, h.scheduled_at, h.attempt, o.content_type, o.size, o.truncated, o.content
    FROM unnest(%(out_n)s::int8[], %(out_types)s::text[], %(out_sizes)s::int8[], %(out_cut)s::bool[],
                %(out_content)s::bytea[]) AS o (n, content_type, size, truncated, content)
    JOIN held h ON h.n = o.n ON CONFLICT DO NOTHING
)
UPDATE runs r SET status = h.status, reason = CASE WHEN h.status = 'cancelled' THEN 'cancelled' ELSE h.reason END,
       error = h.error, http_status = h.http_status,
       finished_at = CASE WHEN h.status <> 'scheduled' THEN c.now END,
       lease_owner = CASE WHEN h.status <> 'scheduled' THEN r.lease_owner END,
       lease_token = NULL, lease_expires_at = NULL, deadline_at = NULL
FROM held h, clock c
WHERE r.partition_id = h.partition_id AND r.job_id = h.job_id AND r.scheduled_at = h.scheduled_at
  AND r.scheduled_at BETWEEN %(low)s AND %(high)s
RETURNING r.job_id, r.scheduled_at, r.status
"""

# Index: runs_limited of each day, one probe a job and day. Cost: the live runs of these jobs, bounded by their
# max_running and queue_limit. A run that has its trigger already keeps its place but gets no second one.
RELEASE = """
INSERT INTO triggers (partition_id, fire_at, job_id, scheduled_at, kind, job_version, attempt, limited)
SELECT w.partition_id, w.now, w.job_id, w.scheduled_at, 'run', w.job_version, 1, true
FROM (
    SELECT r.partition_id, r.job_id, r.scheduled_at, r.status, r.job_version, j.max_running, c.now,
           count(*) FILTER (WHERE r.status IN ('queued', 'running') OR (r.status = 'scheduled' AND r.attempt > 0))
               OVER job AS active,
           count(*) FILTER (WHERE r.status = 'waiting') OVER (job ORDER BY r.scheduled_at) AS place
    FROM (SELECT DISTINCT * FROM unnest(%s::int2[], %s::uuid[])) AS k (partition_id, job_id)
    JOIN jobs j ON j.partition_id = k.partition_id AND j.job_id = k.job_id
    JOIN runs r ON r.partition_id = k.partition_id AND r.job_id = k.job_id
    CROSS JOIN (SELECT clock_timestamp() AS now) c
    WHERE r.limited AND r.status IN ('scheduled', 'waiting', 'queued', 'running')
    WINDOW job AS (PARTITION BY r.partition_id, r.job_id)
) w
WHERE w.status = 'waiting' AND w.active + w.place <= w.max_running
  AND NOT EXISTS (SELECT FROM triggers t WHERE t.partition_id = w.partition_id AND t.job_id = w.job_id
                  AND t.scheduled_at = w.scheduled_at AND t.kind = 'run')
ON CONFLICT DO NOTHING
RETURNING 1
"""

NOTIFY = "SELECT pg_notify('tocsin', '')"

# Index: workers_pkey; the first shard only.
REGISTER = """
INSERT INTO workers (worker_id, tiers, slots, running, expires_at)
VALUES (%(worker)s, %(tiers)s, %(slots)s, %(running)s, clock_timestamp() + %(lease)s)
ON CONFLICT (worker_id) DO UPDATE SET running = excluded.running, expires_at = excluded.expires_at
"""

UNREGISTER = "DELETE FROM workers WHERE worker_id = %s"
