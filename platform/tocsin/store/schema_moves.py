"""The tables of partitions that move between shards; `moves.py` says how. Part of `schema.metadata`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, SmallInteger, Table, text
from sqlalchemy.dialects.postgresql import UUID

from tocsin.store.schema import Instant, metadata

shard_identity = Table(
    "shard_identity",
    metadata,
    Column("identity", UUID(as_uuid=True), primary_key=True, server_default=text("gen_random_uuid()")),
    comment="One row: who this database is, whatever address it is reached by",
)

shard_moves = Table(
    "shard_moves",
    metadata,
    Column("partition_id", SmallInteger, primary_key=True, autoincrement=False),
    # Rises with each move of the partition, over all databases. 0: the settings say where it is.
    Column("generation", BigInteger, nullable=False, server_default=text("0")),
    Column("moved_to", UUID(as_uuid=True)),  # NULL: it is here
    Column("leaving_to", UUID(as_uuid=True)),
    Column("mover", UUID(as_uuid=True)),
    Column("lease_until", Instant),  # until then it refuses writes
    comment="Where the partitions are that were moved, or are being moved",
)
