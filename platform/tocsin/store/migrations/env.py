"""Alembic's entry: runs the migrations on the connection that `tocsin.store.migrate` hands over."""

from alembic import context

from tocsin.store import schema_moves  # noqa: F401  its tables are part of the metadata
from tocsin.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
