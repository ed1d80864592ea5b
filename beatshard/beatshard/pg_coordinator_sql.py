"""The statements of the Postgres coordinator, kept together. Index: the primary keys of two small tables."""

from __future__ import annotations

JOIN = """
INSERT INTO nodes (node_id, zone, expires_at) VALUES (%(node)s, %(zone)s, clock_timestamp() + %(lease)s)
"""

# Locks the node's own row for the rest of the tick. No row: the lease has ended.
RENEW = """
UPDATE nodes SET expires_at = clock_timestamp() + %(lease)s
WHERE node_id = %(node)s AND expires_at > clock_timestamp()
RETURNING node_id
"""

# One row a node; a claim without a node counts as a dead node's.
READ = """
SELECT coalesce(n.node_id, c.node_id), coalesce(n.expires_at > clock_timestamp(), false),
       coalesce(c.partitions, '{}')
FROM nodes n
FULL JOIN (SELECT node_id, array_agg(partition_id) AS partitions FROM partition_claims GROUP BY node_id) c
  ON c.node_id = n.node_id
"""

# A row whose renewal is under way is locked, hence skipped; one that was renewed meanwhile no longer matches.
BURY = """
WITH dead AS (
    SELECT node_id FROM nodes WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM nodes n USING dead WHERE n.node_id = dead.node_id
)
DELETE FROM partition_claims c
WHERE c.node_id IN (SELECT node_id FROM dead)
   OR NOT EXISTS (SELECT FROM nodes n WHERE n.node_id = c.node_id)
"""

CLAIM = """
INSERT INTO partition_claims (partition_id, node_id)
SELECT p, %(node)s FROM unnest(%(partitions)s::int2[]) AS p ORDER BY p
ON CONFLICT DO NOTHING
RETURNING partition_id
"""

RELEASE = """
DELETE FROM partition_claims WHERE node_id = %(node)s AND partition_id = ANY(%(partitions)s::int2[])
"""

LEAVE = """
WITH gone AS (DELETE FROM nodes WHERE node_id = %(node)s)
DELETE FROM partition_claims WHERE node_id = %(node)s
"""
