"""The kinds of problem that the API answers with: code, status, title, what it means, what to do.

`code` is the stable contract; `docs/problems/` and `GET /problems/{code}` are made from this table, so the
`type` of every problem resolves. Every kind has a fix: a problem that knows a better one carries its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemType:
    """One kind of problem. `store`: whether a retry can help without changing the request."""

    code: str
    status: int
    title: str
    meaning: str
    fix: str
    retry_after: int | None = None


def _type(
    code: str, status: int, title: str, meaning: str, fix: str, retry: int | None = None
) -> ProblemType:
    return ProblemType(code=code, status=status, title=title, meaning=meaning, fix=fix, retry_after=retry)


TYPES: dict[str, ProblemType] = {
    kind.code: kind
    for kind in (
        _type(
            "invalid_json",
            400,
            "The body is not JSON that can be read",
            "The body must be UTF-8 JSON (RFC 8259) without duplicate keys, NaN, Infinity, NUL characters or "
            "lone surrogates, nested at most 64 deep.",
            "correct the JSON where the detail says",
        ),
        _type(
            "bad_header",
            400,
            "A header cannot be read",
            '`If-Match` and `If-None-Match` hold entity tags such as `"7"`; `Idempotency-Key` holds 1 to 255 '
            "printable ASCII characters.",
            "correct the header that the detail names",
        ),
        _type(
            "bad_cursor",
            400,
            "The cursor does not belong to this list",
            "A cursor is the `nextCursor` of the page before and goes with the same path and filters.",
            "start again without a cursor, and keep the filters from page to page",
        ),
        _type(
            "bad_token",
            403,
            "The token does not fit",
            "The token of a callback fits one attempt of one run, once, while that attempt is in progress.",
            "send the Tocsin-Callback-Token of the attempt's own call; a used or overtaken one cannot be renewed",
        ),
        _type(
            "not_found",
            404,
            "There is no such thing",
            "No job, run or path has this name.",
            "check the ID or the name; GET /jobs lists the jobs",
        ),
        _type(
            "method_not_allowed",
            405,
            "The path does not have this method",
            "The `Allow` header names the methods that the path has.",
            "use a method that the Allow header names",
        ),
        _type(
            "name_taken",
            409,
            "The name is taken",
            "A name is unique among the jobs of a namespace that are not deleted.",
            "choose another name, or change the existing job with PATCH",
        ),
        _type(
            "run_exists",
            409,
            "The nominal time has its run",
            "Two runs of one job never share a nominal time.",
            "read the existing run, or repeat it with POST /runs/{id}/retry",
        ),
        _type(
            "run_final",
            409,
            "The run has ended",
            "A run that has ended cannot be cancelled.",
            "read the run to see how it ended",
        ),
        _type(
            "run_not_final",
            409,
            "The run has not ended",
            "Only a run that has ended can be repeated.",
            "wait until it has ended, or cancel it first",
        ),
        _type(
            "conflict",
            409,
            "The current state forbids this",
            "Somebody else changed the thing, or it is in a state that does not allow this.",
            "read the current state and try again",
        ),
        _type(
            "key_in_flight",
            409,
            "The same request is being worked on",
            "Another request with this Idempotency-Key has not been answered yet.",
            "wait a second and send the same request again",
            retry=1,
        ),
        _type(
            "gone",
            410,
            "The run is past its retention",
            "Runs are kept for a number of days (`TOCSIN_RETENTION_DAYS`).",
            "look at a more recent run of the job",
        ),
        _type(
            "stale_version",
            412,
            "The job has changed since",
            "`If-Match` names another version than the current one, which the `ETag` header gives.",
            "read the job again, and repeat the change on the current version",
        ),
        _type(
            "payload_too_large",
            413,
            "The body is too large",
            "A body has a limit (`TOCSIN_BODY_LIMIT`, in bytes), whatever its Content-Length says.",
            "send a smaller body",
        ),
        _type(
            "unsupported_media_type",
            415,
            "The body has another media type",
            "Bodies are `application/json`; PATCH also takes `application/merge-patch+json`.",
            "send the header Content-Type: application/json",
        ),
        _type(
            "validation",
            422,
            "The request is not valid",
            "`errors` names each field, what is wrong with it and what to change. Nothing was written.",
            "change each field that errors names",
        ),
        _type(
            "key_reused",
            422,
            "The Idempotency-Key was used for another request",
            "A key stands for one request for 24 hours; this one came with another body.",
            "make a fresh key for each new request",
        ),
        _type(
            "internal",
            500,
            "tocsin has failed",
            "A fault of tocsin's own; the log has the request's ID.",
            "send the request again; if it fails again, report the request's ID",
        ),
        _type(
            "shard_unavailable",
            503,
            "A part of the store is not available",
            "The Postgres shard that holds these rows cannot be reached, is not migrated or is too slow.",
            "send the request again after the time in Retry-After; GET /readyz names what is wrong",
            retry=2,
        ),
        _type(
            "overloaded",
            503,
            "Too many requests at once",
            "As many requests wait as may.",
            "send the request again after the time in Retry-After",
            retry=1,
        ),
    )
}
