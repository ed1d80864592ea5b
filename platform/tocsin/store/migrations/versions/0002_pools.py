"""The worker pool of a job."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("ALTER TABLE jobs ADD COLUMN pool TEXT DEFAULT 'default' NOT NULL")
