"""Databases for tests: a migrated template once per session, a copy of it per test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from tocsin.embedded import EmbeddedPostgres

TEMPLATE = "tocsin_template"


def libpq(url: str) -> str:
    """The plain libpq form of a SQLAlchemy URL."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


@dataclass(slots=True)
class Databases:
    """Creates databases on one server and drops them again."""

    server: EmbeddedPostgres
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def make_template(self, upgrade: Callable[[str], None]) -> None:
        """Create the template and bring it to the newest schema."""
        self._run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        upgrade(self.server.url_of(TEMPLATE))
        # A forgotten connection of the migration would make every copy fail; close them all.
        self._run(
            sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}").format(
                TEMPLATE
            )
        )
        self._run(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(TEMPLATE)))

    def create(self, *, template: str = "template1") -> str:
        """Create a database and return its name."""
        name = f"test_{next(self._names)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._run(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop(self, name: str) -> None:
        """Drop a database, with whatever is still connected to it."""
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(libpq(self.server.url_of("postgres")), autocommit=True) as connection:
            connection.execute(statement)
