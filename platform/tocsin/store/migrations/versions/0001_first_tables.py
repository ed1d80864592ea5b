"""First tables."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

# Written out, not taken from the metadata: a migration must not change when the metadata does.
STATEMENTS = (
    """
    CREATE TABLE attempts (
        partition_id SMALLINT NOT NULL,
        job_id UUID NOT NULL,
        scheduled_at TIMESTAMP WITH TIME ZONE NOT NULL,
        attempt INTEGER NOT NULL,
        started_at TIMESTAMP WITH TIME ZONE,
        finished_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        lease_owner TEXT,
        http_status SMALLINT,
        reason TEXT NOT NULL,
        error TEXT,
        PRIMARY KEY (partition_id, job_id, scheduled_at, attempt)
    )
     PARTITION BY RANGE (scheduled_at)
    """,
    """
    CREATE TABLE gaps (
        partition_id SMALLINT NOT NULL,
        job_id UUID NOT NULL,
        first_at TIMESTAMP WITH TIME ZONE NOT NULL,
        last_at TIMESTAMP WITH TIME ZONE NOT NULL,
        count BIGINT NOT NULL,
        at_least BOOLEAN NOT NULL,
        job_version INTEGER NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        PRIMARY KEY (partition_id, job_id, first_at)
    )
    """,
    """
    CREATE TABLE idempotency_keys (
        partition_id SMALLINT NOT NULL,
        key TEXT NOT NULL,
        fingerprint BYTEA NOT NULL,
        status SMALLINT NOT NULL,
        headers JSONB NOT NULL,
        body BYTEA NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        PRIMARY KEY (partition_id, key)
    )
    """,
    "CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at)",
    """
    CREATE TABLE jobs (
        partition_id SMALLINT NOT NULL,
        job_id UUID NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        owner TEXT NOT NULL,
        labels JSONB DEFAULT '{}' NOT NULL,
        definition JSONB NOT NULL,
        version INTEGER DEFAULT 1 NOT NULL,
        spec_id BIGINT,
        jitter_us BIGINT DEFAULT 0 NOT NULL,
        task_kind TEXT NOT NULL,
        tier TEXT NOT NULL,
        timeout_us BIGINT NOT NULL,
        overlap TEXT NOT NULL,
        max_running INTEGER NOT NULL,
        queue_limit INTEGER NOT NULL,
        paused BOOLEAN DEFAULT false NOT NULL,
        pause_reason TEXT,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        deleted_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (partition_id, job_id)
    )
    """,
    "CREATE UNIQUE INDEX jobs_name ON jobs (partition_id, namespace, name) WHERE deleted_at IS NULL",
    "CREATE INDEX jobs_newest ON jobs (job_id) WHERE deleted_at IS NULL",
    """
    CREATE TABLE nodes (
        node_id TEXT NOT NULL,
        zone TEXT DEFAULT '' NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        PRIMARY KEY (node_id)
    )
    """,
    """
    CREATE TABLE partition_claims (
        partition_id SMALLINT NOT NULL,
        node_id TEXT NOT NULL,
        PRIMARY KEY (partition_id)
    )
    """,
    """
    CREATE TABLE partitions (
        partition_id SMALLINT NOT NULL,
        epoch BIGINT DEFAULT 0 NOT NULL,
        owner TEXT,
        watermark TIMESTAMP WITH TIME ZONE DEFAULT '-infinity' NOT NULL,
        taken_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (partition_id)
    )
    """,
    """
    CREATE TABLE run_outputs (
        partition_id SMALLINT NOT NULL,
        job_id UUID NOT NULL,
        scheduled_at TIMESTAMP WITH TIME ZONE NOT NULL,
        attempt INTEGER NOT NULL,
        content_type TEXT,
        size BIGINT NOT NULL,
        truncated BOOLEAN NOT NULL,
        content BYTEA NOT NULL,
        PRIMARY KEY (partition_id, job_id, scheduled_at, attempt)
    )
     PARTITION BY RANGE (scheduled_at)
    """,
    """
    CREATE TABLE runs (
        partition_id SMALLINT NOT NULL,
        job_id UUID NOT NULL,
        scheduled_at TIMESTAMP WITH TIME ZONE NOT NULL,
        status TEXT NOT NULL,
        origin TEXT NOT NULL,
        attempt INTEGER DEFAULT 0 NOT NULL,
        job_version INTEGER NOT NULL,
        tier TEXT NOT NULL,
        task_kind TEXT NOT NULL,
        limited BOOLEAN DEFAULT false NOT NULL,
        cancel_requested BOOLEAN DEFAULT false NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        fired_at TIMESTAMP WITH TIME ZONE,
        started_at TIMESTAMP WITH TIME ZONE,
        attempt_started_at TIMESTAMP WITH TIME ZONE,
        deadline_at TIMESTAMP WITH TIME ZONE,
        finished_at TIMESTAMP WITH TIME ZONE,
        lease_owner TEXT,
        lease_token UUID,
        lease_expires_at TIMESTAMP WITH TIME ZONE,
        http_status SMALLINT,
        reason TEXT,
        error TEXT,
        rerun_of TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (partition_id, job_id, scheduled_at)
    )
     PARTITION BY RANGE (scheduled_at)
    """,
    "CREATE INDEX runs_leased ON runs (partition_id, lease_expires_at) WHERE status = 'running'",
    """
    CREATE INDEX runs_limited ON runs (partition_id, job_id)
    WHERE limited AND status IN ('scheduled', 'waiting', 'queued', 'running')
    """,
    "CREATE INDEX runs_queued ON runs (partition_id, fired_at) WHERE status = 'queued'",
    """
    CREATE TABLE specs (
        spec_id BIGINT NOT NULL,
        spec JSONB NOT NULL,
        PRIMARY KEY (spec_id)
    )
    """,
    """
    CREATE TABLE triggers (
        partition_id SMALLINT NOT NULL,
        fire_at TIMESTAMP WITH TIME ZONE NOT NULL,
        job_id UUID NOT NULL,
        scheduled_at TIMESTAMP WITH TIME ZONE NOT NULL,
        kind TEXT NOT NULL,
        job_version INTEGER NOT NULL,
        attempt INTEGER DEFAULT 1 NOT NULL,
        spec_id BIGINT,
        jitter_us BIGINT DEFAULT 0 NOT NULL,
        limited BOOLEAN DEFAULT false NOT NULL,
        PRIMARY KEY (partition_id, fire_at, job_id, scheduled_at)
    )
    """,
    "CREATE INDEX triggers_job ON triggers (partition_id, job_id)",
    """
    CREATE TABLE workers (
        worker_id TEXT NOT NULL,
        tiers TEXT[] NOT NULL,
        slots INTEGER NOT NULL,
        running INTEGER DEFAULT 0 NOT NULL,
        started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        PRIMARY KEY (worker_id)
    )
    """,
    # The same formula as tocsin.schedules.jitter_for.
    """
    CREATE FUNCTION jitter_of(job_id uuid, nominal timestamptz, jitter_us bigint) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT make_interval(secs => 0) + (
            jitter_us * (
                'x' || substr(
                    md5(job_id::text || chr(58) || (extract(epoch FROM nominal) * 1000000)::bigint::text),
                    1, 8
                )
            )::bit(32)::bigint / 4294967296
        ) * interval '1 microsecond'
    $$
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
