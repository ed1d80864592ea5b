"""A dev server in use: the banner, jobs that run, retries, the CLI's contract with the real API."""

from __future__ import annotations

import re

import pytest

from support.receiver import Receiver

from .dev_process import Dev

JOB_KEYS = {
    "jobId",
    "name",
    "version",
    "createdAt",
    "updatedAt",
    "nextRunAt",
    "pauseReason",
    "schedule",
    "task",
}
RUN_KEYS = {
    "runId", "jobId", "jobName", "nominalTime", "status", "origin", "attempt", "reason", "error", "httpStatus",
    "createdAt", "firedAt", "startedAt", "finishedAt", "latenessSec", "durationSec", "nextAttemptAt", "attempts",
}  # fmt: skip


def test_the_banner(dev: Dev) -> None:
    text = dev.process.text("stdout")
    assert re.search(r"^tocsin \S+ dev · ready in \d+\.\d s$", text, re.MULTILINE)
    assert f"First export TOCSIN_API_URL={dev.url}" in text
    assert "temporary, removed on exit" in text
    assert text.splitlines()[-1] == "Development only: no auth, loopback only."


def test_the_samples_are_there_and_the_canary_is_not(dev: Dev) -> None:
    jobs = dev.json("job", "list")
    assert {job["name"] for job in jobs} >= {"hello", "flaky", "dst-demo"}
    assert "tocsin-dev-canary" not in {job["name"] for job in jobs}
    assert set(jobs[0]) >= JOB_KEYS


def test_a_run_by_hand(dev: Dev) -> None:
    said = dev.cli("job", "run", "hello", "--wait", "--timeout", "30s", "-o", "name")
    assert said.code == 0, said.err
    run = dev.json("run", "get", said.out.strip())
    assert set(run) >= {*RUN_KEYS, "output"}
    assert run["output"]["text"].startswith("hello from tocsin, run run_")


def test_retries_are_visible(dev: Dev) -> None:
    said = dev.cli("job", "run", "flaky", "--wait", "--timeout", "60s", "-o", "name")
    assert said.code == 0, said.err
    assert "attempt 1 failed: http 503; retry " in said.err
    run = dev.json("run", "get", said.out.strip())
    assert (run["attempt"], [item["httpStatus"] for item in run["attempts"]][:2]) == (3, [503, 503])


def test_a_scheduled_job_calls_its_target(dev: Dev, receiver: Receiver) -> None:
    made = dev.cli("job", "create", "often", "--every", "2s", "--url", f"{receiver.url}/ok", "-o", "name")
    assert made.code == 0, made.err
    requests = receiver.wait_for(count=2)
    assert dev.cli("job", "pause", "often", "--reason", "enough").code == 0
    runs = dev.json("run", "list", "often", "--status", "succeeded,running,queued")
    ids = {run["runId"] for run in runs}
    assert {request.key.strip('"') for request in requests} <= ids
    newest = runs[0]["runId"]
    assert dev.cli("run", "watch", newest, "--timeout", "20s").code == 0
    assert dev.json("job", "get", "often")["pauseReason"] == "enough"
    assert dev.cli("job", "resume", "often").code == 0
    assert dev.cli("job", "delete", "often", "--yes").code == 0
    assert dev.cli("job", "get", "often").code == 3


def test_a_failed_run_is_exit_code_1_and_can_be_retried(dev: Dev) -> None:
    target = re.search(r"^  Target +(\S+)", dev.process.text("stdout"), re.MULTILINE)
    assert target
    url = f"{target[1]}/nothing-here"
    assert dev.cli("job", "create", "broken", "--url", url).code == 0
    said = dev.cli("job", "run", "broken", "--wait", "--timeout", "30s", "-o", "name")
    assert said.code == 1, said.err
    assert "failed: http 404" in said.err
    assert dev.cli("run", "retry", said.out.strip(), "--wait", "--timeout", "30s").code == 1
    assert dev.cli("run", "cancel", said.out.strip()).code == 5
    assert dev.cli("job", "create", "broken", "--url", url).code == 5
    assert dev.cli("job", "delete", "broken", "--yes").code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["job", "get", "nobody"], 3),
        (["run", "get", "run_" + "0" * 46], 3),  # past its retention
        (["job", "run", "nobody"], 3),
        (["job", "delete", "hello"], 2),
        (["run", "list", "hello", "--status", "nonsense"], 7),
    ],
)
def test_the_real_api_gives_the_exit_codes(arguments: list[str], code: int, dev: Dev) -> None:
    said = dev.cli(*arguments)
    assert said.code == code, said.err
    assert said.err.splitlines()[-1].startswith("  fix: ")


def test_a_file_goes_in_and_comes_out_the_same(dev: Dev) -> None:
    path = dev.directory / "again.tocsin.yaml"
    text = dev.cli("job", "get", "dst-demo", "-o", "yaml").out
    path.write_text(text.replace("name: dst-demo", "name: again"))
    assert dev.cli("diff", "-f", str(path)).code == 1
    assert dev.cli("apply", "-f", str(path), "--yes").code == 0
    said = dev.cli("apply", "-f", str(path))
    assert (said.code, said.err) == (0, "0 to create, 0 to update, 1 unchanged\n")
    version = dev.json("job", "get", "again")["version"]
    path.write_text(path.read_text().replace("30 2 * * *", "45 2 * * *"))
    assert dev.cli("apply", "-f", str(path), "--yes").code == 0
    changed = dev.json("job", "get", "again")
    assert (changed["schedule"]["cron"], changed["version"]) == ("45 2 * * *", version + 1)
    assert dev.cli("job", "edit", "again", "--every", "1h").code == 0
    assert dev.json("job", "get", "again")["schedule"]["everySec"] == 3600
    assert dev.cli("job", "delete", "again", "--yes").code == 0
