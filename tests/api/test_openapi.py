"""The description of the API: valid, up to date, and true of what is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from openapi_pydantic import OpenAPI

from api.conftest import Api
from tocsin_api.generate import files
from tocsin_api.openapi import document
from tocsin_api.operations import OPERATIONS
from tocsin_api.problem_types import TYPES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_openapi_3_1() -> None:
    made = OpenAPI.model_validate(document())
    assert made.paths is not None
    assert set(made.paths) >= {"/jobs", "/jobs/{jobId}", "/runs/{runId}/cancel"}
    for schema in document()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere() -> None:
    whole = document()

    def refs(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [ref for inner in value.values() for ref in refs(inner)]
        return [ref for inner in value for ref in refs(inner)] if isinstance(value, list) else []

    names = {ref.removeprefix("#/components/schemas/") for ref in refs(whole)}
    assert names <= set(whole["components"]["schemas"])


def test_the_committed_documents_are_up_to_date() -> None:
    for name, text in files().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, (
            f"docs/{name} differs: run python -m tocsin_api.generate docs"
        )
    pages = {path.stem for path in (DOCS / "problems").glob("*.md")} - {"README"}
    assert pages == set(TYPES)


def test_problems_of_operations_are_known() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert {code for operation in OPERATIONS for code in operation.problems} <= set(TYPES)


def test_the_documents_are_served_without_foreign_hosts(api: Api) -> None:
    assert api.http.get("/openapi.json").json() == json.loads(json.dumps(document()))
    page = api.http.get("/docs").text
    assert "://" not in page
    assert "<script" not in page
    for operation in OPERATIONS:
        assert operation.path in page


def test_answers_have_the_described_shape(api: Api) -> None:
    job = api.job(schedule={"cron": "0 2 * * *", "jitter": "30s"})
    run = api.http.post("/jobs/name:nightly/runs").json()
    told = [
        ("JobOut", job),
        ("JobOut", api.http.get("/jobs/name:nightly").json()),
        ("JobPage", api.http.get("/jobs").json()),
        ("RunOut", run),
        ("RunOut", api.http.get(f"/runs/{run['runId']}").json()),
        ("RunPage", api.http.get("/jobs/name:nightly/runs").json()),
        ("OccurrencePage", api.http.get("/jobs/name:nightly/occurrences").json()),
        ("PreviewOut", api.http.post("/schedules/preview", json={"schedule": "@daily"}).json()),
        ("HealthOut", api.http.get("/readyz").json()),
        ("ProblemOut", api.http.get("/jobs/name:nope").json()),
        ("ProblemOut", api.http.post("/jobs", json={}).json()),
    ]
    components = document()["components"]
    for name, body in told:
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        jsonschema.Draft202012Validator(schema).validate(body)
    assert list(told[0][1]) == list(told[1][1])  # one order, from memory and from the store
