"""Every way a command can end has its exit code, and the code is in the printed table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tocsin_cli.exits import MEANING, ExitCode, exit_for_run, exit_for_status

from .api_stub import ApiStub, problem
from .conftest import Cli
from .samples import JOB_ID, job, run

JOB = "/jobs/name:nightly-close"
RUN = run()["runId"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, 7), (401, 4), (403, 4), (404, 3), (408, 6), (409, 5), (410, 3), (412, 5), (413, 7), (415, 7),
        (422, 7), (428, 5), (429, 6), (500, 6), (502, 6), (503, 6), (504, 6),
    ],
)  # fmt: skip
def test_an_error_answer(status: int, code: int, api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, status, problem("some_code", "it did not work", fix="do this"))
    result = cli("job", "get", "nightly-close", api=api)
    assert (result.code, result.out) == (code, "")
    assert exit_for_status(status) == code
    assert result.err.splitlines()[0] == "error: it did not work  [some_code]"
    assert result.err.splitlines()[-1] == "  fix: do this"


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled", "skipped"])
def test_a_watched_run_gives_its_outcome(status: str, api: ApiStub, cli: Cli) -> None:
    api.answer("GET", f"/runs/{RUN}", 200, run(status="running", finishedAt=None, durationSec=None))
    api.answer("GET", f"/runs/{RUN}", 200, run(status=status))
    assert cli("run", "watch", RUN, "-o", "name", api=api).code == (0 if status == "succeeded" else 1)
    assert exit_for_run(status) == (0 if status == "succeeded" else 1)


def test_a_run_that_goes_on_is_8(api: ApiStub, cli: Cli) -> None:
    api.answer("POST", f"{JOB}/runs", 202, run(status="queued"))
    api.answer("GET", f"/runs/{RUN}", 200, run(status="running"))
    result = cli("job", "run", "nightly-close", "--wait", "--timeout", "300ms", api=api)
    assert (result.code, result.out) == (8, "")
    assert f"tocsin run watch {RUN}" in result.err.splitlines()[-1]


def test_a_lost_answer_does_not_end_a_watch(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", f"/runs/{RUN}", 200, run(status="running"))
    api.answer("GET", f"/runs/{RUN}", 503, problem("overloaded", "later"))
    api.answer("GET", f"/runs/{RUN}", 200, "drop")
    api.answer("GET", f"/runs/{RUN}", 200, run(status="succeeded"))
    assert cli("run", "watch", RUN, "-o", "name", api=api).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nope"],
        ["job", "get"],
        ["job", "list", "--nope"],
        ["job", "list", "-o", "xml"],
        ["job", "run", "x", "--wait", "--timeout", "soon", "--server", "http://127.0.0.1:1"],
        ["job", "list", "--server", "ftp://x"],
        ["run", "get", "nightly-close"],
        ["job", "create"],
        ["job", "create", "x", "--cron", "* * * * *", "--every", "5m"],
        ["job", "create", "x", "--header", "novalue"],
        ["job", "create", "x", "--json", "{"],
        ["lint"],
        ["apply", "-f", "/does/not/exist.tocsin.yaml"],
        ["help", "nope"],
    ],
)
def test_usage_is_2(arguments: list[str], cli: Cli) -> None:
    result = cli(*arguments)
    expected = 6 if "soon" in arguments and result.code == 6 else 2
    assert result.code == expected
    assert result.out == ""
    assert result.err


def test_an_unreachable_server_is_6(cli: Cli) -> None:
    result = cli("job", "list", "--server", "http://127.0.0.1:1")
    assert result.code == 6
    assert "tocsin dev" in result.err.splitlines()[-1]


def test_a_server_that_is_not_tocsin_is_6(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", "/jobs", 200, "<html>")
    assert cli("job", "list", api=api).code == 6


def test_delete_without_a_terminal_names_the_flag(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer("GET", f"/jobs/{JOB_ID}/runs", 200, {"items": [], "nextCursor": None})
    result = cli("job", "delete", "nightly-close", api=api)
    assert result.code == 2
    assert result.err.splitlines()[-1] == "  fix: add --yes"
    assert api.sent("DELETE") == []


def test_delete_with_yes(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer("GET", f"/jobs/{JOB_ID}/runs", 200, {"items": [], "nextCursor": None})
    api.answer("DELETE", f"/jobs/{JOB_ID}", 204)
    result = cli("job", "delete", "nightly-close", "--yes", api=api)
    assert result.code == 0
    assert result.err == "deleted nightly-close\n"


@pytest.mark.parametrize("cancel", [False, True])
def test_delete_names_the_runs_that_have_not_ended(api: ApiStub, cli: Cli, cancel: bool) -> None:
    api.answer("GET", JOB, 200, job())
    api.answer("GET", f"/jobs/{JOB_ID}/runs", 200, {"items": [{"runId": "run_1"}], "nextCursor": None})
    api.answer("DELETE", f"/jobs/{JOB_ID}", 204)
    result = cli("job", "delete", "nightly-close", "--yes", *(["--cancel-runs"] if cancel else []), api=api)
    (sent,) = api.sent("DELETE")
    assert sent.query == ("runs=cancel" if cancel else "")
    assert result.err.splitlines()[0].startswith("1 run has not ended; ")
    assert result.err.splitlines()[-1] == ("cancelled: run_1" if cancel else "still going on: run_1")


def test_an_answer_nobody_foresaw_is_a_bug_in_one_line(api: ApiStub, cli: Cli) -> None:
    api.answer("GET", "/jobs", 200, {"unexpected": True})
    result = cli("job", "list", api=api)
    assert result.code == 70
    assert result.err.splitlines()[-1].endswith("tocsin --debug …` and report the output")
    assert "Traceback" not in result.err


def test_ctrl_c_is_130(api: ApiStub) -> None:
    import signal

    from support.processes import Process

    api.answer("GET", f"/runs/{RUN}", 200, run(status="running", finishedAt=None, durationSec=None))
    command = [sys.executable, "-m", "tocsin_cli", "run", "watch", RUN, "--server", api.url]
    with Process(command) as process:
        process.wait_for_line("running", stream="stderr")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_a_reader_that_leaves_is_no_error(api: ApiStub) -> None:
    api.answer("GET", "/jobs", 200, {"items": [job()] * 2000, "nextCursor": None})
    tocsin = f"{sys.executable} -m tocsin_cli job list -o json --limit 2000 --server {api.url}"
    script = f"set -o pipefail; {tocsin} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_is_complete(cli: Cli) -> None:
    assert set(MEANING) == set(ExitCode)
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130]
    printed = [line.split()[0] for line in cli("help", "exit-codes").out.splitlines()]
    assert printed == [str(code.value) for code in ExitCode]


def test_a_bad_file_is_7_and_lint_is_1(tmp_path: Path, cli: Cli) -> None:
    bad = tmp_path / "bad.tocsin.yaml"
    bad.write_text("name: x\n")
    assert cli("lint", "-f", str(bad)).code == 1
    assert cli("apply", "-f", str(bad), "--yes").code == 7
    assert cli("job", "create", "x", "--url", "nowhere").code == 7
    nothing = cli("job", "create", "x")
    assert (nothing.code, nothing.err.splitlines()[-1][:18]) == (2, "  fix: add --url U")


def test_lint_of_what_cannot_be_created_any_more_says_so(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "old.tocsin.yaml"
    file.write_text(
        "name: x\nschedule: {at: 2020-01-01T00:00:00Z}\ntask: {http: {url: https://x.example/}}\n"
    )
    result = cli("lint", "-f", str(file))
    assert result.code == 0  # the job may exist, and have run
    assert f"note: {file}:1 x: 2020-01-01T00:00:00Z is past, by more than catchUp.window (10m)" in result.err
    file.write_text("")
    assert cli("lint", "-f", str(file)).code == 2
