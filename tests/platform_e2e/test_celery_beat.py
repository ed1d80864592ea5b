"""The drop-in: a team's own project, two `celery beat -S beatshard.Scheduler` and the team's own worker, for real."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.processes import Process
from tocsin.embedded import EmbeddedBroker
from tocsin.ids import parse_run_id
from tocsin.store.shards import connect

PROJECT = """
    import json, os, time
    from celery import Celery
    app = Celery("proj", broker=os.environ["PROJ_BROKER"])
    app.conf.update(
        beatshard_database_url=os.environ["PROJ_DATABASE"], task_ignore_result=True, worker_hijack_root_logger=True,
        timezone="Europe/Berlin", task_default_queue="proj-work", broker_connection_retry_on_startup=True,
    )
    app.conf.beat_schedule = {entries}

    @app.task(name="proj.note", bind=True)
    def note(self, *args, **kwargs):
        line = json.dumps(dict(id=self.request.id, args=args, kwargs=kwargs, at=time.time()))
        with open(os.environ["PROJ_LOG"], "a") as file:
            file.write(line + "\\n")
        print("noted", self.request.id, flush=True)
"""
ENTRIES = {
    "each second": "{'task': 'proj.note', 'schedule': 1.0, 'args': ('second',)}",
    "every-two": "{'task': 'proj.note', 'schedule': 2.0, 'kwargs': {'who': 'two'}, 'options': {'priority': 1}}",
}


class Project:
    """A team's project in a directory of its own."""

    def __init__(self, place: Path, database_url: str, broker_url: str) -> None:
        self.place, self.log = place, place / "notes.jsonl"
        self.stack = ExitStack()
        self.database = self.stack.enter_context(connect(database_url))
        self.env = {"PROJ_BROKER": broker_url, "PROJ_DATABASE": database_url, "PROJ_LOG": str(self.log)}
        self.env |= {"TOCSIN_NODE_LEASE": "1.5", "TOCSIN_RUN_LEASE": "2", "TOCSIN_HEARTBEAT_INTERVAL": "0.5"}
        self.env |= {"TOCSIN_REAP_INTERVAL": "0.5", "PYTHONUNBUFFERED": "1"}
        (place / "proj").mkdir()
        (place / "proj" / "__init__.py").write_text("")

    def write(self, entries: dict[str, str]) -> None:
        body = "{" + ", ".join(f"{name!r}: {entry}" for name, entry in entries.items()) + "}"
        (self.place / "proj" / "celery.py").write_text(textwrap.dedent(PROJECT).replace("{entries}", body))

    def celery(self, *words: str) -> Process:
        command = [sys.executable, "-m", "celery", "-A", "proj", *words]
        return self.stack.enter_context(Process(command, env=self.env, cwd=self.place, name=words[0]))

    def beat(self) -> Process:
        beat = self.celery("beat", "-S", "beatshard.Scheduler", "-l", "INFO")
        beat.wait_for_line("beat ready", timeout=60)
        beat.wait_for_line("worker ready", timeout=60)
        return beat

    def worker(self) -> Process:
        worker = self.celery("worker", "--pool", "solo", "-l", "INFO")
        worker.wait_for_line("ready", timeout=60)
        return worker

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def nominals(self, who: str) -> list[int]:
        """The nominal times, in whole seconds, at which an entry's task ran."""
        found = []
        for note in self.notes():
            if note["args"] == [who] or note["kwargs"] == {"who": who}:
                key = parse_run_id(note["id"])
                assert key is not None
                found.append(key.scheduled_us // 1_000_000)
        return found

    def jobs(self) -> dict[str, tuple[Any, ...]]:
        rows = self.database.execute(
            "SELECT name, version, paused, definition -> 'schedule' FROM jobs WHERE deleted_at IS NULL"
        ).fetchall()
        return {row[0]: row[1:] for row in rows}


@pytest.fixture(params=["rabbitmq", "redis"])
def project(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Iterator[Project]:
    with ExitStack() as stack:
        if request.param == "rabbitmq":
            broker = request.getfixturevalue("rabbitmq_vhost")
        else:
            broker = stack.enter_context(EmbeddedBroker()).url
        project = Project(tmp_path, database_url, broker)
        stack.callback(project.stack.close)
        yield project


def consecutive(times: list[int], step: int, again: range) -> None:
    """None left out, each nominal time once, those around a kill twice at most; in any order."""
    assert [n for n, count in Counter(times).items() if count > 1 + (n in again)] == []
    assert sorted(set(times)) == list(range(min(times), max(times) + 1, step))


def test_two_beats_share_an_apps_schedule_and_one_may_die(project: Project) -> None:
    project.write(ENTRIES)
    worker = project.worker()
    first, second = project.beat(), project.beat()
    worker.wait_for_line("noted", skip=8, timeout=30)
    killed_at = time.time()
    first.kill()
    worker.wait_for_line("noted", skip=26, timeout=40)
    assert second.terminate() == 0
    # What the dead one had sent and not recorded is sent again, under the same task ID.
    again = range(int(killed_at) - 2, int(killed_at) + 2)
    consecutive(project.nominals("second"), 1, again)
    consecutive(project.nominals("two"), 2, again)
    assert len(project.nominals("second")) > 12
    assert not list(project.place.glob("celerybeat-schedule*")), "no local schedule file"


def test_entries_come_and_go_and_what_others_made_stays(project: Project) -> None:
    project.write(ENTRIES)
    assert project.beat().terminate() == 0
    before = project.jobs()
    names = sorted(before)
    assert len(names) == 2
    assert names[1] == "beat.every-two"
    project.database.execute("UPDATE jobs SET paused = true, definition = jsonb_set(definition, '{paused}', 'true')"
                             " WHERE name = 'beat.every-two'")  # fmt: skip
    beat = project.beat()
    assert beat.terminate() == 0
    again = project.jobs()
    assert again["beat.every-two"][1] is True, "a pause survives a restart"
    assert again[names[0]] == before[names[0]], "nothing moved, no new version"
    project.write({"every-two": "{'task': 'proj.note', 'schedule': 60.0}"})
    assert project.beat().terminate() == 0
    after = project.jobs()
    assert list(after) == ["beat.every-two"]
    assert after["beat.every-two"][2]["everySec"] == 60


def test_a_beat_that_cannot_work_says_what_to_change(project: Project) -> None:
    project.write({"odd": "{'task': 'proj.note', 'schedule': 0.2}"})
    beat = project.celery("beat", "-S", "beatshard.Scheduler")
    assert beat.wait(60) != 0
    assert "beat_schedule['odd']" in beat.text()
    assert "run it every second at most" in beat.text()
    assert project.jobs() == {}
    project.env["TOCSIN_DATABASE_URL"] = project.env["PROJ_DATABASE"].rsplit("/", 1)[0] + "/nowhere"
    beat = project.celery("beat", "-S", "beatshard.Scheduler")
    assert beat.wait(60) != 0
    assert "cannot be reached" in beat.text()
