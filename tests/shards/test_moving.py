"""Moving partitions between two databases: what is copied, who may write when, and what a death leaves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from shards.moves import FIRST, LAST, TABLES, contents, databases_of, epochs, fresh_map, moved, plan
from shards.names import in_shard
from store.builder import Bench
from tocsin.clock import monotonic
from tocsin.ids import partition_of, partition_of_name
from tocsin.settings import Settings
from tocsin.store import firing, partitions, places, transactions
from tocsin.store.connections import connect
from tocsin.store.moves_lease import renew
from tocsin.store.moving import MoveError, Plan, finish_again
from tocsin.store.places import MOVED
from tocsin_api.app import create_app

TASK = {"http": {"url": "http://127.0.0.1:1/"}}
Databases = list[psycopg.Connection[Any]]


def test_every_table_about_partitions_moves(dbs: list[psycopg.Connection[Any]]) -> None:
    """But the one that says where they are, and the coordinator's."""
    found = dbs[0].execute(
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'partition_id'"
        " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
    )
    assert {name for (name,) in found} - {"shard_moves", "partition_claims"} == set(TABLES)


@pytest.fixture
def dbs(shard_urls: list[str]) -> Iterator[Databases]:
    with databases_of(shard_urls) as connections:
        yield connections


def create(http: TestClient, name: str, **more: Any) -> dict[str, Any]:
    answer = http.post(
        "/jobs", json={"name": name, "task": TASK, **more}, headers={"idempotency-key": f"key {name}"}
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def fill(http: TestClient, db: psycopg.Connection[Any], count: int = 8) -> list[str]:
    """Jobs in the range with everything that a job can have: long past, just ended, running, queued, waiting."""
    names = in_shard(FIRST, LAST, count)
    for name in names:
        job = create(http, name, schedule="@daily", concurrency="queue")
        for _ in range(2):
            assert http.post(f"/jobs/{job['jobId']}/runs").status_code == 202
    db.execute(
        """
        INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier, task_kind,
                          fired_at, finished_at, lease_token, lease_expires_at)
        SELECT partition_id, job_id, now() - n * interval '5 min', CASE n WHEN 1 THEN 'running' WHEN 2 THEN 'queued'
               ELSE 'succeeded' END, 'schedule', 1, 1, tier, task_kind, now(),
               CASE WHEN n > 2 THEN now() - n * interval '5 min' END, gen_random_uuid(),
               CASE WHEN n = 1 THEN now() + interval '1 hour' END
        FROM jobs, generate_series(1, 9) n
        """
    )
    for table in ("attempts", "run_outputs"):
        values = "finished_at, 'http_status'" if table == "attempts" else "10, false, 'body'::bytea"
        columns = "finished_at, reason" if table == "attempts" else "size, truncated, content"
        db.execute(
            f"INSERT INTO {table} (partition_id, job_id, scheduled_at, attempt, {columns})"  # type: ignore[arg-type]
            f" SELECT partition_id, job_id, scheduled_at, attempt, {values} FROM runs WHERE finished_at IS NOT NULL"
        )
    db.execute(
        "INSERT INTO gaps (partition_id, job_id, first_at, last_at, count, at_least, job_version)"
        " SELECT partition_id, job_id, now(), now(), 1, false, 1 FROM jobs"
    )
    return names


def test_every_row_arrives_as_it_was_and_none_stays(http: TestClient, sharded: str, dbs: Databases) -> None:
    fill(http, dbs[0])
    before, others = contents(dbs[0]), contents(dbs[0], 0, FIRST - 1)
    assert all(before[table] for table in TABLES), "there is something of everything"
    raised = epochs(dbs[0])
    done = moved(sharded)
    assert contents(dbs[1]) == before
    assert not any(contents(dbs[0]).values())
    assert contents(dbs[0], 0, FIRST - 1) == others
    assert done.rows["runs"] == len(before["runs"])
    assert done.pause > 0
    assert {p: epoch > raised[p] for p, epoch in epochs(dbs[1]).items()} == dict.fromkeys(raised, True)
    spec = "SELECT count(*) FROM triggers t LEFT JOIN specs USING (spec_id) WHERE t.spec_id IS NOT NULL AND spec IS NULL"
    assert dbs[1].execute(spec).fetchone() == (0,)


def test_the_past_is_copied_before_the_fence(http: TestClient, sharded: str, dbs: Databases) -> None:
    fill(http, dbs[0], 2)
    seen: dict[str, tuple[int, int]] = {}

    def reached(point: str) -> None:
        found = dbs[1].execute(
            "SELECT count(*) FILTER (WHERE finished_at < now() - interval '10 min'), count(*) FROM runs"
        )
        seen[point] = found.fetchone()  # type: ignore[assignment]

    moved(sharded, reached=reached)
    past, everything = seen["move-copied"]
    assert seen["move-past-copied"] == seen["move-fenced"] == (past, past)
    assert 0 < past < everything


def test_while_the_fence_stands_the_range_is_read_only_and_the_rest_is_not(
    http: TestClient, sharded: str, dbs: Databases
) -> None:
    (inside, second) = fill(http, dbs[0], 2)
    (outside,) = in_shard(0, FIRST - 1, 1)
    create(http, outside)
    answers: dict[str, list[int]] = {}

    def reached(point: str) -> None:
        answers[point] = [
            http.patch(f"/jobs/name:{inside}", json={"owner": point}).status_code,
            http.get(f"/jobs/name:{inside}").status_code,
            http.patch(f"/jobs/name:{outside}", json={"owner": point}).status_code,
        ]
        if point == "move-fenced":
            refused = http.post(f"/jobs/name:{second}/pause", json={})
            assert refused.json()["code"] == "shard_unavailable"
            assert refused.headers["retry-after"]
            assert "moved" in refused.json()["detail"]

    moved(sharded, reached=reached)
    assert answers == {
        "move-past-copied": [200, 200, 200],
        "move-fenced": [503, 200, 200],
        "move-copied": [503, 200, 200],
        "move-switched": [200, 200, 200],
        "move-opened": [200, 200, 200],
    }
    assert http.get(f"/jobs/name:{inside}").json()["owner"] == "move-opened"


@pytest.mark.parametrize("table", TABLES)
def test_no_table_of_the_range_can_be_written_in_the_old_shard(
    http: TestClient, sharded: str, dbs: Databases, table: str
) -> None:
    fill(http, dbs[0], 1)
    kept = dbs[0].execute(f"SELECT * FROM {table} WHERE false")  # type: ignore[arg-type]
    assert kept.description is not None
    columns = ", ".join(f'"{column.name}"' for column in kept.description)

    def refused(point: str) -> None:
        if point not in ("move-fenced", "move-copied", "move-switched"):
            return
        for statement in (
            f"UPDATE {table} SET partition_id = partition_id WHERE partition_id BETWEEN 100 AND 199",
            f"DELETE FROM {table} WHERE partition_id BETWEEN 100 AND 199",
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}"
            " WHERE partition_id BETWEEN 100 AND 199 LIMIT 1 ON CONFLICT DO NOTHING",
        ):
            with pytest.raises(psycopg.Error) as caught:
                dbs[0].execute(statement)  # type: ignore[arg-type]
            assert caught.value.sqlstate == MOVED

    moved(sharded, reached=refused)


def test_there_and_back_again(http: TestClient, sharded: str, dbs: Databases) -> None:
    names = fill(http, dbs[0])
    moved(sharded)
    for n, name in enumerate(names):
        assert http.patch(f"/jobs/name:{name}", json={"owner": f"team-{n}"}).status_code == 200
    between = contents(dbs[1])
    moved(sharded, 1, 0)
    assert contents(dbs[0]) == between
    assert not any(contents(dbs[1]).values())
    for n, name in enumerate(names):
        assert http.get(f"/jobs/name:{name}").json()["owner"] == f"team-{n}"
        assert http.post(f"/jobs/name:{name}/runs").status_code == 202
    moved(sharded)
    assert len(http.get("/jobs").json()["items"]) == len(names)
    fences = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'fence%' AND tgparentid = 0"
    assert [db.execute(fences).fetchone() for db in dbs] == [(2 * len(TABLES),), (0,)]


def test_a_spare_database_gets_its_first_partitions(
    sharded: str, shard_urls: list[str], new_database: Any, http: TestClient, dbs: Databases
) -> None:
    from support.shards import own_identity

    names = fill(http, dbs[0], 3)
    spare = own_identity(new_database())
    with connect(spare) as db:
        db.execute("DELETE FROM partitions")  # as `tocsin db upgrade` leaves a spare one
        three = f"{sharded},spare={spare}"
        assert fresh_map(three).shards[2].name == "spare"
        moved(three, 0, 2)
        assert len(epochs(db)) == LAST - FIRST + 1
        with TestClient(create_app(Settings(database_url=three))) as client:
            listed = [job["name"] for job in client.get("/jobs").json()["items"]]
            assert sorted(listed) == sorted(names)
    # This process was not told of the new database: it says so, and shows nothing old.
    answer = http.get(f"/jobs/name:{names[0]}")
    assert (answer.status_code, answer.json()["code"]) == (503, "shard_unavailable")


def test_a_list_is_whole_at_every_point_of_a_move(http: TestClient, sharded: str, dbs: Databases) -> None:
    names = sorted(fill(http, dbs[0], 6) + in_shard(600, 700, 2))
    for name in in_shard(600, 700, 2):
        create(http, name)
    seen: dict[str, list[str]] = {}

    def reached(point: str) -> None:
        fresh = Settings(database_url=sharded)
        with TestClient(create_app(fresh)) as new:
            for client in (http, new):
                found = sorted(job["name"] for job in client.get("/jobs").json()["items"])
                assert found == names, point
        seen[point] = found

    moved(sharded, reached=reached)
    assert len(seen) == 5


def test_whoever_learns_of_the_switch_opens_the_new_shard(
    http: TestClient, sharded: str, dbs: Databases
) -> None:
    """The mover dies between its switch and telling the target."""
    (name,) = fill(http, dbs[0], 1)

    class Died(BaseException):
        pass

    def die(point: str) -> None:
        if point == "move-switched":
            raise Died

    with pytest.raises(Died):
        moved(sharded, reached=die)
    assert dbs[1].execute("SELECT count(*) FROM shard_moves WHERE moved_to IS NULL").fetchone() == (0,)
    assert http.patch(f"/jobs/name:{name}", json={"owner": "new"}).status_code == 200
    assert dbs[1].execute("SELECT owner FROM jobs WHERE name = %s", (name,)).fetchone() == ("new",)
    shards = fresh_map(sharded)
    deleted = finish_again(shards, plan(shards, 0, 1))
    assert deleted > 0
    assert not any(contents(dbs[0]).values())


def test_a_mover_that_fails_leaves_the_range_as_it_was(
    http: TestClient, sharded: str, dbs: Databases
) -> None:
    (name,) = fill(http, dbs[0], 1)
    before = contents(dbs[0])
    for point in ("move-past-copied", "move-fenced", "move-copied"):

        def fail(at: str, point: str = point) -> None:
            if at == point:
                raise RuntimeError(point)

        with pytest.raises(RuntimeError):
            moved(sharded, reached=fail, lease=600)
        assert contents(dbs[0]) == before
        assert http.post(f"/jobs/name:{name}/pause", json={}).status_code == 200, (
            "at once, not after the lease"
        )
        assert http.post(f"/jobs/name:{name}/resume", json={}).status_code == 200
        before = contents(dbs[0])
        assert len(http.get("/jobs").json()["items"]) == 1
    moved(sharded)
    assert contents(dbs[1]) == before


def test_a_write_after_the_lease_has_ended_stops_the_switch(
    http: TestClient, sharded: str, dbs: Databases
) -> None:
    """The mover slept: what was written meanwhile is not in its copy."""
    (name,) = fill(http, dbs[0], 1)

    def sleep_in(point: str) -> None:
        if point == "move-copied":
            dbs[0].execute("UPDATE shard_moves SET lease_until = clock_timestamp()")
            assert http.patch(f"/jobs/name:{name}", json={"owner": "late"}).status_code == 200

    with pytest.raises(MoveError, match="within the lease"):
        moved(sharded, reached=sleep_in, lease=600)
    assert http.get(f"/jobs/name:{name}").json()["owner"] == "late"
    moved(sharded)
    assert http.get(f"/jobs/name:{name}").json()["owner"] == "late"


def test_a_writer_under_way_when_the_lease_ends_is_waited_for(
    sharded: str, shard_urls: list[str], http: TestClient, dbs: Databases
) -> None:
    """It passed the fence after the lease's end and has not committed: a renewal must not bring the lease back."""
    (name,) = fill(http, dbs[0], 1)
    shards = fresh_map(sharded)

    def write(point: str) -> None:
        if point != "move-copied":
            return
        dbs[0].execute("UPDATE shard_moves SET lease_until = clock_timestamp()")
        writer = connect(shard_urls[0], autocommit=False)
        writer.execute("UPDATE jobs SET owner = 'under way' WHERE name = %s", (name,))
        held = (
            dbs[0]
            .execute("SELECT count(*) FROM shard_moves WHERE lease_until > clock_timestamp()")
            .fetchone()
        )
        assert held == (0,)
        writer.commit()
        writer.close()

    with pytest.raises(MoveError):
        moved(sharded, reached=write, lease=600)
    shards = fresh_map(sharded)
    transactions.refresh(shards, shards.shards[0])
    assert shards.shard_of(partition_of_name("default", name)) == shards.shards[0]
    assert dbs[0].execute("SELECT owner FROM jobs WHERE name = %s", (name,)).fetchone() == ("under way",)


def test_a_lease_that_has_ended_is_not_brought_back(http: TestClient, sharded: str, dbs: Databases) -> None:
    (name,) = fill(http, dbs[0], 1)
    renewed: list[bool] = []

    def late(point: str) -> None:
        if point == "move-copied":
            found = dbs[0].execute("SELECT DISTINCT mover FROM shard_moves").fetchone()
            assert found is not None
            args = {"first": FIRST, "last": LAST, "mover": found[0], "lease": timedelta(seconds=60)}
            renewed.append(renew(dbs[0], args))
            dbs[0].execute("UPDATE shard_moves SET lease_until = clock_timestamp()")
            assert http.patch(f"/jobs/name:{name}", json={"owner": "late"}).status_code == 200
            renewed.append(renew(dbs[0], args))

    with pytest.raises(MoveError, match="within the lease"):
        moved(sharded, reached=late, lease=600)
    assert renewed == [True, False]
    assert http.get(f"/jobs/name:{name}").json()["owner"] == "late"


def test_a_pause_that_would_be_too_long_is_given_up(http: TestClient, sharded: str, dbs: Databases) -> None:
    (name,) = fill(http, dbs[0], 1)
    end = dbs[0].execute("SELECT clock_timestamp() + interval '20 s'").fetchone()
    assert end is not None

    def dawdle(point: str) -> None:
        if point == "move-fenced":  # until the lease, which is renewed no more, has ended
            dbs[0].execute("LISTEN never")
            while dbs[0].execute(
                "SELECT count(*) FROM shard_moves WHERE lease_until > clock_timestamp()"
            ).fetchone() != (0,):
                list(dbs[0].notifies(timeout=0.1))
                assert dbs[0].execute("SELECT clock_timestamp() < %s", end).fetchone() == (True,)

    with pytest.raises(MoveError, match="within 2 s"):
        moved(sharded, reached=dawdle, lease=1, max_pause=2)
    assert http.patch(f"/jobs/name:{name}", json={"owner": "x"}).status_code == 200


def test_a_slow_copy_keeps_its_lease(http: TestClient, sharded: str, dbs: Databases) -> None:
    (name,) = fill(http, dbs[0], 1)

    def dawdle(point: str) -> None:
        if point == "move-fenced":
            dbs[0].execute("LISTEN never")
            until = monotonic() + 2.5
            while monotonic() < until:
                list(dbs[0].notifies(timeout=0.1))
                assert http.patch(f"/jobs/name:{name}", json={"owner": "x"}).status_code == 503

    moved(sharded, reached=dawdle, lease=1)
    assert http.patch(f"/jobs/name:{name}", json={"owner": "x"}).status_code == 200


def test_a_node_loses_the_range_and_nothing_else(sharded: str, dbs: Databases) -> None:
    """No error comes to it: the epoch is stale, and the partition cannot be taken while it moves."""
    bench = Bench(dbs[0])
    now = bench.now() - timedelta(seconds=1)
    jobs = [bench.job(now, schedule={"every": "1h", "anchor": now.isoformat()}) for _ in range(60)]
    inside = {job for job in jobs if FIRST <= partition_of(job) <= LAST}
    assert inside
    fired: list[Any] = []

    def fire(point: str) -> None:
        if point == "move-fenced":
            done = firing.fire(dbs[0], bench.plans, bench.owned, limit=100)
            fired.extend(run.job_id for run in done.runs)
            assert set(done.fenced) == {partition_of(job) for job in inside}
            assert partitions.take(dbs[0], done.fenced, "node") == []
            far = [p for p in (0, 511) if not FIRST <= p <= LAST]
            assert len(partitions.take(dbs[0], far, "node")) == len(far)

    moved(sharded, reached=fire)
    assert set(fired) == {job for job in jobs if partition_of(job) < 512} - inside | {
        job for job in jobs if partition_of(job) >= 512
    }
    there = Bench(dbs[1])
    there.take(*{partition_of(job) for job in inside})
    done = firing.fire(dbs[1], there.plans, there.owned, limit=100)
    assert {run.job_id for run in done.runs} == inside


def test_what_is_queued_is_published_again_whatever_the_clocks_say(sharded: str, dbs: Databases) -> None:
    """The source's clock is ahead: the watermark and the queued run lie beyond the target's now."""
    bench = Bench(dbs[0])
    job = next(job for job in iter(bench.job, None) if FIRST <= partition_of(job) <= LAST)
    dbs[0].execute(
        "UPDATE partitions SET watermark = now() + interval '30 s' WHERE partition_id = %s",
        (partition_of(job),),
    )
    dbs[0].execute(
        "INSERT INTO runs (partition_id, job_id, scheduled_at, status, origin, attempt, job_version, tier,"
        " task_kind, fired_at) VALUES (%s, %s, now(), 'queued', 'schedule', 1, 1, 'default', 'http',"
        " now() + interval '31 s')",
        (partition_of(job), job),
    )
    moved(sharded)
    page = partitions.unpublished(dbs[1], partition_of(job))
    assert [run.job_id for run in page.runs] == [job]
    now = bench.now()
    assert page.fired_at is not None
    assert page.fired_at <= now
    assert dbs[1].execute("SELECT count(*) FROM partitions WHERE watermark > now()").fetchone() == (0,)


def test_copies_of_one_database_are_refused(new_database: Any) -> None:
    urls = [new_database(), new_database()]
    with pytest.raises(MoveError, match="one identity"):
        moved(f"0-511={urls[0]},512-1023={urls[1]}")


def test_one_move_at_a_time(sharded: str) -> None:
    def second(point: str) -> None:
        if point == "move-past-copied":
            with pytest.raises(MoveError, match="another move"):
                moved(sharded, first=300, last=310)

    moved(sharded, reached=second)


def test_a_map_follows_from_either_side(sharded: str, dbs: Databases) -> None:
    """The old shard knows where they went, the new one that it has them: either is enough."""
    moved(sharded)
    moved(sharded, 1, 0)
    moved(sharded)
    for asked in (0, 1):
        shards = fresh_map(sharded)
        assert shards.shard_of(FIRST) == shards.shards[0], "not asked yet"
        places.learn(dbs[asked], shards, shards.shards[asked])
        if asked == 1:
            assert shards.shard_of(FIRST) == shards.shard_of(LAST) == shards.shards[1]
            assert shards.shard_of(FIRST - 1) == shards.shards[0]
        places.learn(dbs[1 - asked], shards, shards.shards[1 - asked])
        assert {shards.shard_of(p).name for p in range(FIRST, LAST + 1)} == {"512-1023"}
        assert len(shards.partitions_of(shards.shards[0])) == 412


def test_the_plan_is_the_range_s_whole(sharded: str) -> None:
    shards = fresh_map(sharded)
    wrong = Plan(source=shards.shards[1], target=shards.shards[0], first=FIRST, last=LAST, settle=0)
    from tocsin.store.moving import move

    with pytest.raises(MoveError, match="not in the source"):
        move(shards, wrong)
