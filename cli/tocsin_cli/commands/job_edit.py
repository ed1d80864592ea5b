"""`tocsin job create` and `job edit`: from flags, from a file, or in the editor.

An edit reads the job, builds the whole new document, checks it here and sends a merge patch that names the
version it was made from; a job that changed meanwhile is exit code 5 and nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.model.status import SERVER_FIELDS
from tocsin_cli import flags
from tocsin_cli.client import Client, job_path
from tocsin_cli.failures import Failure, note, usage
from tocsin_cli.options import Format, JobArgument, Output, Server, Time, TimeMode
from tocsin_cli.views.emit import emit, yaml_documents
from tocsin_cli.views.jobs import job_file, job_table
from tocsin_cli.views.times import Clock

if TYPE_CHECKING:
    from tocsin_cli.files.jobfile import JobFile

File = Annotated[str | None, typer.Option("-f", "--file", metavar="PATH", help="Job file; `-` is stdin.")]


def create(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The job's name.")] = None,
    cron: flags.Cron = None,
    every: flags.Every = None,
    at: flags.At = None,
    tz: flags.Zone = None,
    url: flags.Url = None,
    method: flags.Method = None,
    header: flags.Header = None,
    body: flags.Body = None,
    json_body: flags.JsonBody = None,
    owner: flags.Owner = None,
    label: flags.Label = None,
    timeout: flags.JobTimeout = None,
    max_attempts: flags.Attempts = None,
    overlap: flags.Overlap = None,
    tier: flags.Tier = None,
    pool: flags.Pool = None,
    description: flags.Description = None,
    file: File = None,
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    server: Server = None,
) -> None:
    """Create a job from flags, or the jobs of a file."""
    given = flags.document(
        cron=cron, every=every, at=at, tz=tz, url=url, method=method, header=header, body=body,
        json_body=json_body, owner=owner, label=label, timeout=timeout, max_attempts=max_attempts,
        overlap=overlap, tier=tier, pool=pool, description=description,
    )  # fmt: skip
    if (file is None) == (name is None) or (file is not None and given):
        raise usage(
            "give either NAME and flags, or a file", "write `tocsin job create NAME --url …` or -f FILE"
        )
    if file is None and "task" not in given:
        raise usage(
            "there is nothing to run", "add --url URL, or write the job as a file and give it with -f"
        )
    documents = (
        [entry.job.document() for entry in _load(file)] if file else [_checked({"name": name} | given)]
    )
    with Client(server) as client:
        if len(documents) > 1:  # all or nothing, as far as the server can say beforehand
            for document in documents:
                _try_out(client, document)
        for document in documents:
            made = client.post("/jobs", document)
            note(f"created {document['name']} ({made['jobId']})")
        jobs = [client.get(job_path(document["name"])) for document in documents]
        _show(jobs, client, output, time, single=file is None)


def _try_out(client: Client, document: dict[str, Any]) -> None:
    try:
        client.post("/jobs?dryRun=true", document)
    except Failure:
        note(f"{document['name']} is refused; nothing was created")
        raise


def edit(
    job: JobArgument,
    cron: flags.Cron = None,
    every: flags.Every = None,
    at: flags.At = None,
    tz: flags.Zone = None,
    url: flags.Url = None,
    method: flags.Method = None,
    header: flags.Header = None,
    body: flags.Body = None,
    json_body: flags.JsonBody = None,
    owner: flags.Owner = None,
    label: flags.Label = None,
    timeout: flags.JobTimeout = None,
    max_attempts: flags.Attempts = None,
    overlap: flags.Overlap = None,
    tier: flags.Tier = None,
    pool: flags.Pool = None,
    description: flags.Description = None,
    file: File = None,
    output: Output = Format.TABLE,
    time: Time = TimeMode.RELATIVE,
    server: Server = None,
) -> None:
    """Change a job by flags, by a file, or in $EDITOR when neither is given."""
    given = flags.document(
        cron=cron, every=every, at=at, tz=tz, url=url, method=method, header=header, body=body,
        json_body=json_body, owner=owner, label=label, timeout=timeout, max_attempts=max_attempts,
        overlap=overlap, tier=tier, pool=pool, description=description,
    )  # fmt: skip
    if file is not None and given:
        raise usage("a file and flags are both given", "keep one of them")
    with Client(server) as client:
        existing = client.get(job_path(job))
        _save(client, existing, _new_document(existing, given, file))
        _show([client.get(job_path(existing["jobId"]))], client, output, time, single=True)


def _new_document(existing: dict[str, Any], given: dict[str, Any], file: str | None) -> dict[str, Any]:
    if given:
        document = {key: value for key, value in existing.items() if key not in SERVER_FIELDS}
        return _checked(flags.merged(document, given))
    return _from_files(_load(file) if file else _edited(existing), existing["name"])


def _from_files(jobs: list[JobFile], name: str) -> dict[str, Any]:
    if len(jobs) != 1 or jobs[0].name != name:
        raise usage(f"the file does not hold exactly the job {name}", "use `tocsin apply -f` for other jobs")
    return jobs[0].job.document()


def _save(client: Client, existing: dict[str, Any], document: dict[str, Any]) -> None:
    from tocsin_cli.files.plan import plan_update

    step = plan_update(existing, document, client.now)
    if not step.body:
        note(f"{existing['name']} is unchanged")
        return
    client.patch(job_path(existing["jobId"]), step.body, version=step.version)
    note(f"changed {existing['name']}: {', '.join(item.field for item in step.differences)}")


def _edited(existing: dict[str, Any]) -> list[JobFile]:
    import os
    import shlex
    import subprocess
    import tempfile

    from tocsin_cli.prompts import interactive

    if not interactive():
        raise usage(
            "nothing to change was given, and there is no terminal for an editor", "add flags or -f FILE"
        )
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.NamedTemporaryFile("w", prefix="tocsin-", suffix=".tocsin.yaml") as draft:
        draft.write(yaml_documents([job_file(existing)]))
        draft.flush()
        if subprocess.run([*shlex.split(editor), draft.name], check=False).returncode != 0:
            raise usage(f"the editor {editor} failed", "set EDITOR to an editor that works")
        return _load(draft.name)


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """The canonical document. Raises Failure (7) naming every wrong field."""
    from pydantic import ValidationError

    from tocsin.model.job import JobDocument
    from tocsin_cli.exits import ExitCode
    from tocsin_cli.failures import Failure
    from tocsin_cli.files.findings import from_validation

    try:
        return JobDocument.model_validate(document).document()
    except ValidationError as error:
        found = from_validation(error, document)
        raise Failure(
            "the job is not valid",
            exit_code=ExitCode.INVALID,
            code="validation",
            problems=[f"{pointer}: {problem}" for pointer, problem, _ in found],
            fix="; ".join(dict.fromkeys(fix for _, _, fix in found)),
        ) from None


def _load(path: str) -> list[JobFile]:
    from tocsin_cli.files.findings import failure
    from tocsin_cli.files.jobfile import load

    loaded = load([path])
    if loaded.findings:
        raise failure(loaded.findings)
    return loaded.jobs


def _show(
    jobs: list[dict[str, Any]], client: Client, output: Format, time: TimeMode, *, single: bool
) -> None:
    table = job_table(Clock(mode=time, now=client.now))
    emit(jobs, output, name="name", table=table, single=single, document=job_file)
