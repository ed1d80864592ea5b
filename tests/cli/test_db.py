"""`tocsin db`: an empty shard is behind, an upgraded one is not, an absent one is unreachable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from tocsin.store.migrate import head


def db(command: str, url: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tocsin_cli", "db", command],
        env={**os.environ, "TOCSIN_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_upgrade_and_check(new_database: Callable[..., str]) -> None:
    first, second = new_database(migrated=False), new_database(migrated=False)
    url = f"0-511={first},512-1023={second}"
    assert db("check", url)[:2] == (1, "0-511\tempty\n512-1023\tempty\n")
    assert db("upgrade", url)[:2] == (0, f"0-511\t{head()}\n512-1023\t{head()}\n")
    assert db("check", url)[0] == 0


def test_an_absent_database_is_6_and_bad_settings_are_7() -> None:
    code, out, err = db("check", "postgresql://127.0.0.1:1/none")
    assert (code, out) == (6, "")
    assert "TOCSIN_DATABASE_URL" in err.splitlines()[-1]
    assert db("check", "mysql://x")[0] == 7
