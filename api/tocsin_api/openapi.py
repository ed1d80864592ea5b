"""The OpenAPI 3.1 document, made from the table of operations and the pydantic models. Pure.

`docs/openapi.json` is this document; a test holds them equal.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from tocsin import __version__
from tocsin_api.callback_handlers import TOKEN_HEADER
from tocsin_api.models import ProblemOut
from tocsin_api.operations import OPERATIONS, PATCH, Operation
from tocsin_api.problem_types import TYPES

REF = "#/components/schemas/{model}"
_ALWAYS = ("shard_unavailable", "overloaded", "internal")
_BODY = ("invalid_json", "payload_too_large", "unsupported_media_type", "validation")
_DESCRIPTION = (
    "Jobs, their runs, and what is wrong. The same paths are served without the prefix. "
    "Errors are problem documents (RFC 9457) whose `fix` says what to change."
)
_Key = tuple[Any, JsonSchemaMode]  # a model and what it is for


def document() -> dict[str, Any]:
    """The whole document, ready for JSON."""
    refs, components = _schemas()
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for operation in OPERATIONS:
        path = operation.path
        for name in operation.parameters:
            path = path.replace(f"{{{name}}}", f"{{{to_camel(name)}}}")
        paths[path][operation.method.lower()] = _operation(operation, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tocsin",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/v1"}],
        "tags": [{"name": name} for name in ("jobs", "runs", "schedules", "server")],
        "paths": dict(paths),
        "components": {"schemas": components},
    }


def _schemas() -> tuple[dict[_Key, Any], dict[str, Any]]:
    wanted: list[_Key] = [(ProblemOut, "serialization")]
    for operation in OPERATIONS:
        for model, mode in _models(operation):
            if (model, mode) not in wanted:
                wanted.append((model, mode))
    refs, definitions = models_json_schema(wanted, ref_template=REF)
    return dict(refs), definitions["$defs"]


def _models(operation: Operation) -> list[_Key]:
    found: list[_Key] = []
    if isinstance(operation.request, type):
        found.append((operation.request, "validation"))
    if operation.response is not None:
        found.append((operation.response, "serialization"))
    return found


def _operation(operation: Operation, refs: dict[_Key, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": _responses(operation, refs),
    }
    if operation.request == PATCH:
        schema: dict[str, Any] = {
            "type": "object",
            "description": "Merge patch (RFC 7396) of the job document.",
        }
        kinds = ("application/merge-patch+json", "application/json")
        made["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    elif isinstance(operation.request, type):
        required = any(field.is_required() for field in operation.request.model_fields.values())
        schema = refs[operation.request, "validation"]
        made["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    return made


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    words = {
        "job_id": "ID of a job, or `name:` and its name.",
        "run_id": "ID of a run.",
        "code": "Code of a kind of problem.",
    }
    found = [
        _parameter("path", to_camel(name), {"type": "string"}, words[name], required=True)
        for name in operation.parameters
    ]
    if operation.query is not None:
        schema = operation.query.model_json_schema(mode="validation")
        for name, field in schema["properties"].items():
            inner = _inline({k: v for k, v in field.items() if k != "description"}, schema.get("$defs", {}))
            found.append(_parameter("query", name, inner, field.get("description", "")))
    if operation.keyed:
        found.append(
            _parameter(
                "header",
                "Idempotency-Key",
                {"type": "string", "maxLength": 255},
                "The request takes effect once for this key (24 hours).",
            )
        )
    if operation.token:
        told = "The token that came with the attempt's call."
        found.append(_parameter("header", TOKEN_HEADER, {"type": "string"}, told, required=True))
    if operation.matched:
        found.append(
            _parameter("header", "If-Match", {"type": "string"}, 'Only if the job is at this version: `"7"`.')
        )
    return found


def _parameter(
    where: str, name: str, schema: dict[str, Any], words: str, *, required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": where, "required": required, "description": words, "schema": schema}


def _inline(value: Any, definitions: dict[str, Any]) -> Any:
    """A query's schema stands alone: references into its own definitions are written out."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _inline(definitions[value["$ref"].rpartition("/")[2]], definitions)
        return {key: _inline(inner, definitions) for key, inner in value.items()}
    return [_inline(inner, definitions) for inner in value] if isinstance(value, list) else value


def _responses(operation: Operation, refs: dict[_Key, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": operation.summary}
    if operation.response is not None:
        schema = refs[operation.response, "serialization"]
        good["content"] = {"application/json": {"schema": schema}}
    headers = ("Request-Id", *operation.headers)
    good["headers"] = {name: {"schema": {"type": "string"}} for name in headers}
    responses = {str(operation.status): good}
    codes = set(operation.problems) | set(_ALWAYS) | {"validation"}
    if operation.request is not None:
        codes |= set(_BODY)
    by_status: dict[int, list[str]] = defaultdict(list)
    for code, kind in TYPES.items():
        if code in codes:
            by_status[kind.status].append(code)
    problem = {"application/problem+json": {"schema": refs[ProblemOut, "serialization"]}}
    for status, found in sorted(by_status.items()):
        told = "; ".join(f"`{code}`: {TYPES[code].title}" for code in found)
        responses.setdefault(str(status), {"description": told, "content": problem})
    return responses
