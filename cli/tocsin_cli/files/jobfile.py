"""From paths to checked jobs: find the files, read them strictly, apply defaults and variables, validate.

A directory gives its `*.tocsin.yaml` and `*.tocsin.yml` at any depth, in the order of their names. A
document whose only key is `defaults` is merged under the jobs that follow it in the same file; the job's own
values win.
Everything wrong is collected, so that one run of `lint` names it all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from tocsin.model.job import JobDocument
from tocsin_cli.failures import usage
from tocsin_cli.files.env import Trouble, substitute
from tocsin_cli.files.findings import Finding, from_validation, nearest
from tocsin_cli.files.yaml_strict import Document, Place, Value, YamlError, read

SUFFIXES = (".tocsin.yaml", ".tocsin.yml")
_MOST_BYTES = 8_388_608


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """One job of one file; `says_paused`: the file decides whether the job is paused."""

    file: str
    place: Place
    job: JobDocument
    says_paused: bool

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(slots=True)
class Loaded:
    """What the files hold, and what is wrong with them."""

    jobs: list[JobFile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def load(paths: Sequence[str], environment: Mapping[str, str] | None = None) -> Loaded:
    """Read and check all files. Raises Failure only for paths that cannot be read."""
    loaded = Loaded()
    seen: dict[str, JobFile] = {}
    for name, text in _texts(paths):
        for job in _jobs_of(name, text, os.environ if environment is None else environment, loaded.findings):
            if first := seen.get(job.name):
                problem = f"the job {job.name} is also in {first.file}:{first.place.line}"
                loaded.findings.append(
                    Finding(
                        file=name, place=job.place, pointer="#/name", problem=problem, fix="keep one of them"
                    )
                )
            seen[job.name] = job
            loaded.jobs.append(job)
    return loaded


def _texts(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if path == "-":
            yield "<stdin>", sys.stdin.read(_MOST_BYTES)
            continue
        files = _files(Path(path))
        if not files:
            raise usage(
                f"there is no job file in {path}", f"name the files *{SUFFIXES[0]}, or give one by -f"
            )
        for file in files:
            try:
                with file.open(encoding="utf-8") as stream:
                    yield str(file), stream.read(_MOST_BYTES)
            except (OSError, UnicodeDecodeError) as error:
                raise usage(f"{file} cannot be read: {error}", "give a readable UTF-8 file") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))


def _jobs_of(
    name: str, text: str, environment: Mapping[str, str], findings: list[Finding]
) -> Iterator[JobFile]:
    try:
        documents = read(text)
    except YamlError as error:
        findings.append(
            Finding(file=name, place=error.place, pointer="#", problem=error.problem, fix=error.fix)
        )
        return
    defaults: Value = {}
    for document in documents:
        if isinstance(document.value, dict) and set(document.value) == {"defaults"}:
            defaults = document.value["defaults"]
            continue
        trouble: list[Trouble] = []
        value = substitute(_merged(defaults, document.value), environment, trouble)
        job = None if trouble else _validated(name, document, value, trouble)
        findings += [
            Finding(
                file=name, place=nearest(document.places, pointer), pointer=pointer, problem=what, fix=fix
            )
            for pointer, what, fix in trouble
        ]
        if job is not None:
            yield job


def _validated(name: str, document: Document, value: Value, trouble: list[Trouble]) -> JobFile | None:
    if not isinstance(value, dict):
        trouble.append(("#", "a job is a mapping", "write `name: …` and the other fields of a job"))
        return None
    try:
        job = JobDocument.model_validate(value)
    except ValidationError as error:
        trouble += from_validation(error, value)
        return None
    return JobFile(file=name, place=document.places["#"], job=job, says_paused="paused" in value)


def _merged(under: Value, over: Value) -> Value:
    """`over` wins; mappings are merged key by key, everything else is replaced."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    merged: dict[str, Any] = dict(under)
    for key, value in over.items():
        merged[key] = _merged(merged[key], value) if key in merged else value
    return cast("Value", merged)
