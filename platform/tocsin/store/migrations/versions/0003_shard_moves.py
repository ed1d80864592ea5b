"""Partitions that move between shards: the identity of a database, and where its partitions are."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

STATEMENTS = (
    """
    CREATE TABLE shard_identity (
        identity UUID DEFAULT gen_random_uuid() NOT NULL,
        PRIMARY KEY (identity)
    )
    """,
    "INSERT INTO shard_identity DEFAULT VALUES",
    """
    CREATE TABLE shard_moves (
        partition_id SMALLINT NOT NULL,
        generation BIGINT DEFAULT 0 NOT NULL,
        moved_to UUID,
        leaving_to UUID,
        mover UUID,
        lease_until TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (partition_id)
    )
    """,
    # The lock on the row makes a writer wait for the switch that may be under way, and the switch for the writer.
    """
    CREATE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        part smallint;
        refused boolean;
    BEGIN
        IF TG_OP = 'DELETE' THEN part := OLD.partition_id; ELSE part := NEW.partition_id; END IF;
        IF coalesce(current_setting('tocsin.mover', true), '') <> 'on' THEN
            SELECT m.moved_to IS NOT NULL OR coalesce(m.lease_until > clock_timestamp(), false) INTO refused
            FROM shard_moves m WHERE m.partition_id = part FOR SHARE;
            IF refused THEN
                RAISE EXCEPTION 'partition % is not to be written here: it moves to another shard', part
                USING ERRCODE = 'TS001', DETAIL = part::text;
            END IF;
        END IF;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;
    END
    $$
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
