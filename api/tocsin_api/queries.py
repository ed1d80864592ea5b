"""Query parameters beside the filters of lists."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from tocsin.model.duration import Document
from tocsin_api.models import Limit

MAX_WAIT = 30.0


class NoQuery(Document):
    """No query parameters."""


class WaitQuery(Document):
    """How long a GET of a run may wait."""

    wait_sec: float = Field(
        0, ge=0, le=MAX_WAIT, description="Wait until the run has ended, at most this many seconds."
    )


class DeleteQuery(Document):
    """What a delete does to the job's live runs."""

    runs: Literal["keep", "cancel"] = Field("keep", description="Let live runs go on, or cancel them.")


class SpanQuery(Document):
    """A stretch of nominal times; by default a day back and a day ahead."""

    from_: AwareDatetime | None = Field(None, alias="from", description="First instant.")
    to: AwareDatetime | None = Field(None, description="Last instant.")
    limit: Limit


class WriteQuery(Document):
    """Whether a write is one."""

    dry_run: bool = Field(
        False, description="Check everything and answer as if it were done, with 200, and write nothing."
    )
