"""The schema and the hot statements as Citus wants them, so that partition_id can be the distribution column.

Read from a real database: every unique key of a distributed table leads with partition_id; in the plan of every
hot statement each scan of a distributed table is bound by its partition_id, to values or to another table's.

Weakness: it says nothing of Citus itself, which is not installed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tocsin.ids import PARTITIONS
from tocsin.store import firing_sql, leases_sql, partitions, places, plans, reaping_sql
from tocsin.store.shards import connect

DISTRIBUTED = {
    "jobs", "triggers", "runs", "attempts", "run_outputs", "gaps", "partitions", "idempotency_keys", "shard_moves",
}  # fmt: skip
REFERENCE = {"specs"}  # the same rows everywhere, read with every partition
# Not about partitions. The coordinator's claims are of one small table that is asked as a whole.
LOCAL = {"nodes", "partition_claims", "workers", "shard_identity", "alembic_version"}
TYPES = {"now": "::timestamptz", "age": "::interval"}  # parameters that Postgres cannot type by itself
CONDITIONS = {"Index Cond", "Recheck Cond", "TID Cond", "Filter", "Join Filter", "Hash Cond", "Merge Cond"}

HOT = {
    f"{module.__name__.rpartition('.')[2]}.{name}": text
    for module in (firing_sql, leases_sql, reaping_sql, partitions)
    for name, text in vars(module).items()
    if name.isupper() and isinstance(text, str) and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text)
}
HOT["places.AWAY"] = places.AWAY
HOT["places.OPEN"] = places.OPEN
WITHOUT_PARTITIONS = {"leases_sql.NOTIFY", "leases_sql.REGISTER", "leases_sql.UNREGISTER"}


@pytest.fixture
def db(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(database_url, session={"enable_seqscan": "off"}) as conn:
        yield conn


def test_every_table_is_distributed_or_known_not_to_be(db: psycopg.Connection[Any]) -> None:
    rows = db.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition"
    )
    assert {name for (name,) in rows} == DISTRIBUTED | REFERENCE | LOCAL


def test_every_unique_key_of_a_distributed_table_leads_with_the_partition(
    db: psycopg.Connection[Any],
) -> None:
    rows = db.execute(
        "SELECT c.relname, i.indexrelid::regclass::text, a.attname FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indrelid AND NOT c.relispartition"
        " LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
        " WHERE i.indisunique AND c.relname = ANY(%s)",
        (sorted(DISTRIBUTED),),
    ).fetchall()
    assert {table for table, _, _ in rows} == DISTRIBUTED
    assert [row for row in rows if row[2] != "partition_id"] == []


def test_the_column_has_one_type_in_all_of_them(db: psycopg.Connection[Any]) -> None:
    """Tables are co-located by it."""
    rows = db.execute(
        "SELECT attrelid::regclass::text, atttypid::regtype::text, attnotnull FROM pg_attribute"
        " WHERE attname = 'partition_id' AND attrelid::regclass::text = ANY(%s)",
        (sorted(DISTRIBUTED),),
    ).fetchall()
    assert {table for table, _, _ in rows} == DISTRIBUTED
    assert {(kind, not_null) for _, kind, not_null in rows} == {("smallint", True)}
    assert PARTITIONS <= 2**15


def generic(statement: str) -> str:
    """The statement with numbered parameters, as `EXPLAIN (GENERIC_PLAN)` takes it."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1] or f"positional {len(names)}"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}{TYPES.get(name, '')}"

    return re.sub(r"%(?:\((\w+)\))?s", number, statement)


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of the plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from scans(child)


def unbound(db: psycopg.Connection[Any], statement: str) -> list[str]:
    """The aliases of distributed tables that the statement reads without their partition_id."""
    row = db.execute(f"EXPLAIN (GENERIC_PLAN, VERBOSE, FORMAT JSON) {generic(statement)}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    nodes = list(scans(row[0][0]["Plan"]))
    said = " ; ".join(str(node[key]) for node in nodes for key in CONDITIONS & node.keys())
    found = []
    for node in nodes:
        name = node.get("Relation Name", "")
        table = re.sub(r"_\d{8}$", "", name)
        if table in DISTRIBUTED and node["Node Type"] != "ModifyTable":
            # A join above the days of a table names the table, not the day.
            alias = node["Alias"] if name == table else re.sub(r"_\d+$", r"(_\\d+)?", node["Alias"])
            column = rf"\b{alias}\.partition_id"
            if not re.search(rf"{column} = |= {column}\b", said):
                found.append(f"{node['Alias']} ({table})")
    return found


@pytest.mark.parametrize("name", sorted(HOT.keys() - WITHOUT_PARTITIONS))
def test_a_hot_statement_stays_in_its_partitions(db: psycopg.Connection[Any], name: str) -> None:
    statement = HOT[name]
    assert re.search(rf"\b({'|'.join(DISTRIBUTED)})\b", statement), "it is about a distributed table"
    assert unbound(db, statement) == []
    for table, columns in re.findall(r"INSERT INTO (\w+)(?: AS \w+)? \(([^)]*)\)", statement):
        assert table in DISTRIBUTED
        assert columns.split(",")[0].strip() == "partition_id"


@pytest.mark.parametrize("name", sorted(WITHOUT_PARTITIONS))
def test_the_others_touch_no_distributed_table(name: str) -> None:
    assert not re.search(rf"\b({'|'.join(DISTRIBUTED)})\b", HOT[name])


def test_specs_are_read_alone() -> None:
    """A reference table; no hot statement joins it, so it need not even be one."""
    assert re.findall(r"FROM (\w+)", plans.LOAD_SPECS) == ["specs"]
    assert [name for name, text in HOT.items() if re.search(r"\bspecs\b", text)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM jobs WHERE job_id = %s",
        "SELECT * FROM runs r JOIN jobs j ON j.job_id = r.job_id WHERE r.partition_id = %s",
        "DELETE FROM triggers t USING unnest(%s::tid[]) AS k (row) WHERE t.ctid = k.row",
    ],
)
def test_the_check_sees_a_statement_that_crosses(db: psycopg.Connection[Any], statement: str) -> None:
    assert len(unbound(db, statement)) >= 1
