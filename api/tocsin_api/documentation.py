"""`/openapi.json`, and `/docs`: one page without scripts or anything from another host.

Weakness: the page lists operations and their problems; the schemas are only in the JSON.
"""

from __future__ import annotations

from functools import cache
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from tocsin_api.answers import encode
from tocsin_api.openapi import document
from tocsin_api.operations import OPERATIONS, Operation
from tocsin_api.problem_types import TYPES

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8884}"
)


def documentation_routes() -> list[BaseRoute]:
    """The routes of both, at the root and under /v1."""
    return [
        Route(f"{prefix}{path}", endpoint, methods=["GET"])
        for prefix in ("", "/v1")
        for path, endpoint in (("/openapi.json", _openapi), ("/docs", _docs))
    ]


async def _openapi(request: Request) -> Response:
    return Response(_document(), media_type="application/json")


async def _docs(request: Request) -> Response:
    return HTMLResponse(_page())


@cache
def _document() -> bytes:
    return encode(document())


@cache
def _page() -> str:
    problems = "".join(
        f"<tr><td><a href='/problems/{escape(t.code)}'><code>{escape(t.code)}</code></a>"
        f"<td>{t.status}<td>{escape(t.title)}<td>{escape(t.fix)}"
        for t in TYPES.values()
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>tocsin API</title>"
        f"<style>{_STYLE}</style><h1>tocsin API</h1>"
        "<p>Every path also works under <code>/v1</code>. "
        "The whole description is in <a href='/openapi.json'>openapi.json</a>.</p>"
        f"<table><tr><th>Operation<th>What it does<th>Problems{''.join(map(_row, OPERATIONS))}</table>"
        f"<h2>Problems</h2><table><tr><th>Code<th>Status<th>Meaning<th>Fix{problems}</table>"
    )


def _row(operation: Operation) -> str:
    codes = " ".join(f"<code>{escape(code)}</code>" for code in operation.problems)
    return (
        f"<tr><td><code>{operation.method} {escape(operation.path)}</code>"
        f"<td>{escape(operation.summary)}<td>{codes}"
    )


def problem_page(code: str) -> str:
    """The page of one kind of problem in docs/problems."""
    kind = TYPES[code]
    return (
        f"# {kind.title}\n\n`{kind.code}`, status {kind.status}\n\n{kind.meaning}\n\n"
        f"**What to do:** {kind.fix}.\n"
    )
