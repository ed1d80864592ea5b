"""The servers of a chaos cluster that die and come back: RabbitMQ nodes that form a cluster, and PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from support.rabbitmq import RabbitCluster, RabbitNode
from tocsin.embedded import EmbeddedPostgres

_POSTGRES = {"max_connections": 300, "fsync": "on"}


class Rabbits(RabbitCluster):
    """`count` RabbitMQ nodes in one cluster; one alone is a cluster as well."""

    def leader(self, queue: str) -> RabbitNode:
        """The node that leads a quorum queue; the first that runs when nobody can say."""
        alive = [node for node in self.nodes if node.process.running]
        with contextlib.suppress(AssertionError):
            for line in alive[0].ctl("list_queues", "name", "pid").splitlines():
                name, _, pid = line.partition("\t")
                if name == queue:
                    return next((node for node in alive if node.name in pid), alive[0])
        return alive[0]


class Postgres:
    """One PostgreSQL server with a directory and a port that stay over restarts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.server = EmbeddedPostgres(directory, settings=_POSTGRES).start()
        self.port, self.url = self.server.port, self.server.libpq_url

    def kill(self) -> None:
        """SIGKILL to the postmaster: its children end by themselves; `restart` recovers from the log."""
        postmaster = int((self._directory / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)

    def stop(self) -> None:
        self.server.stop()

    def restart(self) -> None:
        """Up again on the same port."""
        self.server.stop()
        self.server = EmbeddedPostgres(self._directory, settings=_POSTGRES, port=self.port).start()


# Whoever inserts runs must own their partition at that moment: the firing transaction holds its row. This trigger
# writes down every node that does not, from outside, whatever the node itself believes.
AUDIT = """
CREATE TABLE IF NOT EXISTS chaos_usurped (partition_id int2, node text, owner text, at timestamptz DEFAULT clock_timestamp());
CREATE OR REPLACE FUNCTION chaos_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('application_name') LIKE 'tocsin beat %' THEN
        INSERT INTO chaos_usurped (partition_id, node, owner)
        SELECT DISTINCT p.partition_id, current_setting('application_name'), p.owner
        FROM made m JOIN partitions p ON p.partition_id = m.partition_id
        WHERE 'tocsin beat ' || coalesce(p.owner, '') <> current_setting('application_name');
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER chaos_audit AFTER INSERT ON runs REFERENCING NEW TABLE AS made
FOR EACH STATEMENT EXECUTE FUNCTION chaos_audit();
"""
