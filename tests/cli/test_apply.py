"""apply and diff: the plan, its requests, and what is left alone."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_cli.exits import ExitCode
from tocsin_cli.files.plan import merge_patch, patched

from .api_stub import ApiStub, problem
from .conftest import Cli
from .samples import JOB_ID, job

FILE = """\
name: nightly-close
owner: billing
schedule: {cron: "30 3 * * *", timeZone: Europe/Berlin}
task: {http: {url: https://billing.internal/close}}
timeout: 20m
"""
SAME = FILE.replace("30 3", "30 2").replace("timeout: 20m\n", "")
NEW = "---\nname: fresh\nschedule: every 6h\ntask: {http: {url: https://x.example/}}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.tocsin.yaml"


@pytest.fixture
def known(api: ApiStub) -> ApiStub:
    api.answer("GET", "/jobs/name:nightly-close", 200, job())
    api.answer("PATCH", f"/jobs/{JOB_ID}", 200, job())
    api.answer("POST", "/jobs", 201, {"jobId": JOB_ID})
    return api


def writes(api: ApiStub) -> list[str]:
    return [request.method for request in api.requests if request.method != "GET"]


def test_the_plan(path: Path, known: ApiStub, cli: Cli, golden: Callable[[str, str], None]) -> None:
    path.write_text(FILE + NEW)
    result = cli("apply", "-f", str(path), "--yes", api=known)
    assert result.code == 0
    golden("plan", result.out + "--- stderr\n" + result.err)
    (patch,) = known.sent("PATCH")
    assert patch.body == {"schedule": {"cron": "30 3 * * *"}, "timeoutSec": 1200}
    assert patch.headers["if-match"] == '"7"'
    assert known.sent("POST")[0].body["name"] == "fresh"


def test_the_plan_for_programs(path: Path, known: ApiStub, cli: Cli) -> None:
    path.write_text(FILE + NEW + "---\n" + SAME.replace("nightly-close", "gone"))
    result = cli("apply", "-f", str(path), "--dry-run", "-o", "json", api=known)
    update, create, _ = json.loads(result.out)
    assert (update["action"], create["action"]) == ("update", "create")
    assert update["changes"][0] == {"field": "schedule.cron", "before": "30 2 * * *", "after": "30 3 * * *"}
    # The nominal time that the gap moves, then the new one on the same morning.
    assert update["nextBefore"][0] == "2026-03-29T01:00:00Z"
    assert update["nextAfter"][0] == "2026-03-29T01:30:00Z"
    assert writes(known) == []


@pytest.mark.parametrize(
    "text",
    [
        SAME,
        SAME + "timeout: 5m\nretryPolicy: {maxAttempts: 3}\nconcurrency: allow\npaused: false\n",
        SAME.replace("30 2 * * *", "30 02 * * *"),
    ],
)
def test_unchanged_is_no_write(text: str, path: Path, known: ApiStub, cli: Cli) -> None:
    path.write_text(text)
    result = cli("apply", "-f", str(path), api=known)  # nothing to confirm either
    assert (result.code, result.out, writes(known)) == (0, "", [])
    assert result.err == "0 to create, 0 to update, 1 unchanged\n"
    assert cli("diff", "-f", str(path), api=known).code == 0


def test_what_a_newer_server_adds_is_no_difference(path: Path, api: ApiStub, cli: Cli) -> None:
    api.answer(
        "GET", "/jobs/name:nightly-close", 200, job() | {"lastRun": {"status": "failed"}, "newField": 1}
    )
    path.write_text(SAME)
    assert cli("diff", "-f", str(path), api=api).code == 0


@pytest.mark.parametrize(("line", "sent"), [("", None), ("paused: true\n", None), ("paused: false\n", False)])
def test_a_pause_stays_unless_the_file_says(
    line: str, sent: bool | None, path: Path, api: ApiStub, cli: Cli
) -> None:
    api.answer("GET", "/jobs/name:nightly-close", 200, job(paused=True, pauseReason="audit"))
    api.answer("PATCH", f"/jobs/{JOB_ID}", 200, job())
    path.write_text(SAME + line)
    assert cli("apply", "-f", str(path), "--yes", api=api).code == 0
    assert [request.body for request in api.sent("PATCH")] == ([] if sent is None else [{"paused": sent}])


def test_differences_are_1(path: Path, known: ApiStub, cli: Cli) -> None:
    path.write_text(FILE)
    assert cli("diff", "-f", str(path), api=known).code == 1
    assert writes(known) == []


def test_without_a_terminal_yes_is_needed(path: Path, known: ApiStub, cli: Cli) -> None:
    path.write_text(FILE)
    result = cli("apply", "-f", str(path), api=known)
    assert (result.code, result.err.splitlines()[-1], writes(known)) == (2, "  fix: add --yes", [])


@pytest.mark.parametrize(("typed", "code", "sent"), [("y\n", 0, ["PATCH"]), ("\n", 1, []), ("no\n", 1, [])])
def test_a_terminal_is_asked(typed: str, code: int, sent: list[str], path: Path, known: ApiStub) -> None:
    path.write_text(FILE)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tocsin_cli", "apply", "-f", str(path), "--server", known.url]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, typed.encode())
        assert process.wait(20) == code
    os.close(ours)
    assert writes(known) == sent


def test_a_failure_in_the_middle_is_1_and_the_rest_is_tried(path: Path, api: ApiStub, cli: Cli) -> None:
    api.answer("GET", "/jobs/name:nightly-close", 200, job())
    api.answer("PATCH", f"/jobs/{JOB_ID}", 412, problem("stale_version", "the job is at version 8"))
    api.answer("POST", "/jobs", 201, {"jobId": JOB_ID})
    path.write_text(FILE + NEW)
    assert cli("apply", "-f", str(path), "--yes", api=api).code == 1
    assert writes(api) == ["PATCH", "POST"]


def test_a_stale_plan_is_5(path: Path, api: ApiStub, cli: Cli) -> None:
    api.answer("GET", "/jobs/name:nightly-close", 200, job())
    api.answer("PATCH", f"/jobs/{JOB_ID}", 412, problem("stale_version", "the job is at version 8"))
    path.write_text(FILE)
    assert cli("apply", "-f", str(path), "--yes", api=api).code == 5


def test_a_null_that_a_patch_cannot_carry_is_refused(path: Path, known: ApiStub, cli: Cli) -> None:
    url = "https://billing.internal/close"
    path.write_text(SAME.replace(f"url: {url}", f"url: {url}, json: {{a: null}}"))
    result = cli("apply", "-f", str(path), "--yes", api=known)
    assert (result.code, writes(known)) == (7, [])


_json = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.none() | st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abcd"), _json), st.dictionaries(st.sampled_from("abcd"), _json))
def test_a_patch_leads_from_the_old_to_the_new(old: dict[str, object], new: dict[str, object]) -> None:
    assert patched(old, merge_patch(old, new)) == new
    assert merge_patch(new, new) == {}


def test_nothing_is_written_when_the_server_refuses_a_part(path: Path, known: ApiStub, cli: Cli) -> None:
    path.write_text(FILE + NEW)
    known.answer(
        "POST", "/jobs?dryRun=true", 409, problem("name_taken", "a job named 'fresh' exists already")
    )
    result = cli("apply", "-f", str(path), "--yes", api=known)
    assert result.code == ExitCode.CONFLICT
    assert "fresh: error: a job named 'fresh' exists already  [name_taken]" in result.err
    assert "tocsin job edit" in result.err
    assert result.err.rstrip().endswith("nothing was written")
    assert [request.method for request in known.tried] == ["PATCH", "POST"]
    assert writes(known) == []


def test_the_jobs_of_a_file_are_created_all_or_none(path: Path, known: ApiStub, cli: Cli) -> None:
    path.write_text(NEW + NEW.replace("fresh", "other"))
    known.answer("POST", "/jobs?dryRun=true", 422, problem("validation", "never fires"))
    result = cli("job", "create", "-f", str(path), api=known)
    assert result.code == ExitCode.INVALID
    assert writes(known) == []
    assert "fresh is refused; nothing was created" in result.err
