"""`tocsin shard`: what it shows, what it refuses and how it says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from shards.moves import databases_of
from support.databases import Databases
from support.pgbouncer import PgBouncer
from support.shards import away, own_identity


def shard(url: str, *arguments: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tocsin_cli", "shard", *arguments],
        env={**os.environ, "TOCSIN_DATABASE_URL": url, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_list_and_move(sharded: str, shard_urls: list[str]) -> None:
    assert shard(sharded, "list") == (0, "0-511\t0-511\tok\n512-1023\t512-1023\tok\n", "")
    code, out, err = shard(sharded, "move", "7", "--to", shard_urls[1], "--settle", "0")
    assert (code, out.splitlines()[0]) == (0, "moved 7 from 0-511 to 512-1023: 1 partitions"), err
    assert out.splitlines()[1].startswith("pause 0.")
    assert shard(sharded, "list")[1] == "0-511\t0-6,8-511\tok\n512-1023\t7,512-1023\tok\n"
    code, out, _ = shard(sharded, "move", "7", "--to", "512-1023", "--settle", "0")
    assert (code, out) == (0, "7 is there already; deleted 0 old rows\n")
    code, _, err = shard(sharded, "move", "0-10", "--to", "512-1023")
    assert code == 2
    assert "0-6,8-10 in 0-511; 7 in 512-1023" in err
    assert "move each part" in err.splitlines()[-1]


@pytest.mark.parametrize("text", ["5-4", "0-1024", "x", "-1", "1-2-3"])
def test_a_range_that_is_none(sharded: str, text: str) -> None:
    code, _, err = shard(sharded, "move", "--to", "512-1023", "--", text)
    assert code == 2
    assert "100-199" in err.splitlines()[-1]


def test_a_target_that_nobody_knows(sharded: str) -> None:
    code, _, err = shard(sharded, "move", "0-10", "--to", "postgresql://elsewhere/x")
    assert code == 2
    assert "there are 0-511, 512-1023" in err
    assert "spare=URL" in err.splitlines()[-1]


def test_a_shard_that_is_away(sharded: str, shard_urls: list[str], databases: Databases) -> None:
    with away(databases, shard_urls[1]):
        code, out, err = shard(sharded, "list")
        assert (code, out) == (1, "0-511\t0-511\tok\n512-1023\t512-1023\tunreachable\n")
        assert "512-1023" in err
        code, _, err = shard(sharded, "move", "0-10", "--to", "512-1023")
        assert code == 6
        assert "cannot be reached" in err


def test_a_move_that_is_under_way_is_shown(sharded: str, shard_urls: list[str]) -> None:
    with databases_of(shard_urls) as (db, _):
        db.execute(
            "INSERT INTO shard_moves (partition_id, mover, lease_until)"
            " SELECT p, gen_random_uuid(), now() + interval '1 h' FROM generate_series(20, 29) p"
        )
    assert shard(sharded, "list")[1].splitlines()[0] == "0-511\t0-511\tmoving 20-29"
    code, _, err = shard(sharded, "move", "25-35", "--to", "512-1023")
    assert code == 6
    assert "5 of the partitions are being moved by somebody else" in err


def test_the_first_half_of_a_spare_s_life(new_database: Callable[..., str]) -> None:
    urls = [new_database(migrated=False) for _ in range(2)]
    both = f"0-1023={urls[0]},spare={urls[1]}"
    upgrade = [sys.executable, "-m", "tocsin_cli", "db", "upgrade"]
    for _ in range(2):  # the second one after the move: it makes no partition anew
        subprocess.run(upgrade, env={**os.environ, "TOCSIN_DATABASE_URL": both}, check=True, timeout=60)
        if shard(both, "list")[1].startswith("0-1023\t0-1023\t"):
            assert shard(both, "list")[1] == "0-1023\t0-1023\tok\nspare\t-\tok\n"
            assert shard(both, "move", "0-99", "--to", "spare", "--settle", "0")[0] == 0
    assert shard(both, "list")[1] == "0-1023\t100-1023\tok\nspare\t0-99\tok\n"
    with databases_of(urls) as (old, new):
        assert old.execute("SELECT min(partition_id), count(*) FROM partitions").fetchone() == (100, 924)
        assert new.execute("SELECT min(partition_id), count(*) FROM partitions").fetchone() == (0, 100)
    renamed = f"0-99={urls[1]},100-1023={urls[0]}"  # the new layout, written down
    assert shard(renamed, "list")[1] == "0-99\t0-99\tok\n100-1023\t100-1023\tok\n"


def test_behind_a_pooler_a_move_needs_the_direct_address(
    shard_urls: list[str], sharded: str, pgbouncer: PgBouncer
) -> None:
    pooled = ",".join(
        f"{span}={pgbouncer.url_of(url)}" for span, url in zip(("0-511", "512-1023"), shard_urls, strict=True)
    )
    code, _, err = shard(pooled, "move", "0-3", "--to", "512-1023")
    assert code == 6
    assert "TOCSIN_DIRECT_URL" in err.splitlines()[-1]
    code, _, err = shard(
        pooled, "move", "0-3", "--to", "512-1023", "--settle", "0", TOCSIN_DIRECT_URL=sharded
    )
    assert code == 0, err
    assert shard(pooled, "list")[1].splitlines()[1] == "512-1023\t0-3,512-1023\tok"


def test_copies_say_what_to_do(new_database: Callable[..., str]) -> None:
    urls = [own_identity(new_database()), new_database(), new_database()]
    code, _, err = shard(f"0-511={urls[1]},512-1023={urls[2]}", "move", "0-3", "--to", "512-1023")
    assert code == 6
    assert "nothing was moved" in err
    assert "UPDATE shard_identity" in err.splitlines()[-1]
