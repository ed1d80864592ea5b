"""Job files: findings with their places, defaults, variables, and the way back from `-o yaml`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin_cli.files.jobfile import load
from tocsin_cli.views.emit import yaml_documents
from tocsin_cli.views.jobs import job_file

from .conftest import Cli
from .samples import job

GOOD = "name: a\nschedule: {every: 5m}\ntask: {http: {url: 'https://x.example/'}}\n"


def write(directory: Path, text: str, name: str = "jobs.tocsin.yaml") -> str:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (GOOD.replace("name: a", "nmae: a"), "1:1 #/name: name is missing. Add name"),
        (
            GOOD + "retryPolcy: {}\n",
            "4:1 #/retryPolcy: retryPolcy is not a field here. Write retryPolicy instead",
        ),
        (
            GOOD.replace("every: 5m", 'cron: "61 * * * *"'),
            "2:12 #/schedule/cron: `61` is outside 0-59. Write a value from 0 to 59",
        ),
        (GOOD + "timeout: 20 minutes\n", "4:1 #/timeout: "),
        (
            GOOD + "labels: {tier: 1}\n",
            "4:10 #/labels/tier: input should be a valid string. Write a text; in YAML, put it in quotes",
        ),
        (GOOD + "tier: fast\n", "4:1 #/tier: "),
        (GOOD + "timeout: 1m\ntimeoutSec: 60\n", "4:1 #/timeout: timeout and timeoutSec are both given"),
        (GOOD.replace("https://x.example/", "/x"), "3:15 #/task/http/url: the URL is not an absolute http"),
        ("- a\n- b\n", "1:1 #: a job is a mapping"),
        (
            GOOD.replace("{every: 5m}", "\n  cron: */5 * * * *"),
            "3:10 #: an unquoted * begins an alias. Quote the",
        ),
        (
            GOOD + "description: ${env:NOPE_1}\n",
            "4:1 #/description: the variable NOPE_1 is not set. Set NOPE_1",
        ),
        (GOOD + "description: ${secret:x}\n", "4:1 #/description: secrets are not known to this version"),
        (GOOD + "---\n" + GOOD, "5:1 #/name: the job a is also in FILE:1. Keep one of them"),
    ],
)
def test_findings(text: str, finding: str, tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path, text)
    result = cli("lint", "-f", path)
    assert result.code == 1
    assert any(
        line.replace(path, "FILE").startswith(f"FILE:{finding}") for line in result.out.splitlines()
    ), result.out


def test_all_findings_at_once_and_for_programs(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path, "name: a\ntask: {http: {url: /x}}\ntier: fast\n")
    found = json.loads(cli("lint", "-f", path, "-o", "json").out)
    assert [(item["line"], item["pointer"]) for item in found] == [(2, "#/task/http/url"), (3, "#/tier")]
    assert all(item["fix"] and item["file"] == path for item in found)


def test_a_directory_gives_its_job_files_in_order(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("name: a", "name: b"), "b.tocsin.yaml")
    write(tmp_path, GOOD, "a/x.tocsin.yml")
    write(tmp_path, "not: a job", "other.yaml")
    assert [entry.name for entry in load([str(tmp_path)]).jobs] == ["a", "b"]


def test_defaults_are_merged_under_the_jobs_of_their_file(tmp_path: Path) -> None:
    defaults = "defaults:\n  owner: billing\n  schedule: {timeZone: Europe/Berlin}\n  tier: batch\n---\n"
    path = write(tmp_path, defaults + GOOD.replace("every: 5m", "cron: 0 2 * * *") + "tier: critical\n")
    (entry,) = load([path]).jobs
    assert (entry.job.owner, entry.job.tier) == ("billing", "critical")
    assert entry.job.schedule is not None
    assert entry.job.schedule.time_zone == "Europe/Berlin"


def test_variables_are_text_and_only_in_values(tmp_path: Path) -> None:
    text = GOOD.replace("https://x.example/", "${env:BASE}/$${env:BASE}") + "description: '${env:N}'\n"
    (entry,) = load([write(tmp_path, text)], {"BASE": "https://y.example", "N": "5"}).jobs
    assert entry.job.task.http.url == "https://y.example/${env:BASE}"
    assert entry.job.description == "5"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"paused": True, "labels": {"a": "010", "b": "yes", "c": "2:30", "d": ""}},
        {"schedule": {"every": "1h30m", "anchor": "2026-01-01T00:00:00Z", "jitter": "250ms"}},
        {"schedule": {"cron": "*/5 * * * *", "start": "2026-01-01T00:00:00Z", "gap": "skip"}},
        {"schedule": None, "description": "${env:HOME} $${env:X} $$ ${other} \n * @x"},
        {
            "task": {
                "http": {"url": "https://x.example/", "json": {"timeoutSec": 5, "n": None, "${env:A}": 1}}
            }
        },
        {"timeoutSec": 0.25, "retryPolicy": {"maxSec": 86400, "initialSec": 0}, "catchUp": "none"},
    ],
)
def test_a_job_read_as_yaml_is_its_file(changes: dict[str, object], tmp_path: Path) -> None:
    answer = job(**changes)
    text = yaml_documents([job_file(answer)])
    loaded = load([write(tmp_path, text)], {"HOME": "wrong"})
    assert [str(item) for item in loaded.findings] == []
    document = loaded.jobs[0].job.document()
    assert document == {key: answer[key] for key in document}


def test_the_short_forms_are_used(golden: Callable[[str, str], None]) -> None:
    answer = job(timeoutSec=1200, schedule={"every": "90m", "jitter": "30s"}, catchUp={"windowSec": 3600})
    golden("job-file", yaml_documents([job_file(answer)]))
