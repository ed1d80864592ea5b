"""Makes the requests of one attempt from the job's HTTP task: the first one, and those of redirects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import httpx

from tocsin import __version__, clock
from tocsin.model.task import HttpTask
from tocsin.model.template import fill, fill_json, run_values
from tocsin.signature import HEADER, sign
from tocsin.store.leases import Claimed
from tocsin_tasks.http_redirects import Hop

_DEFAULTS = {"User-Agent": f"tocsin/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}


class Outgoing:
    """The requests of one attempt. Raises ValueError for what cannot be sent."""

    def __init__(
        self, task: HttpTask, claimed: Claimed, *, keys: Sequence[bytes], callback: Mapping[str, str]
    ) -> None:
        self._keys, self._callback = keys, callback
        values = run_values(
            claimed.lease.key,
            attempt=claimed.lease.attempt,
            job_name=claimed.job_name,
            time_zone=claimed.time_zone,
        )
        self._run = _run_headers(values)
        self._job = {name: fill(text, values) for name, text in task.headers.items()}
        self.body = fill(task.body or "", values).encode()
        if task.json_body is not None:
            document = fill_json(task.json_body, values)
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            self.body = text.encode()
            if "content-type" not in {name.lower() for name in self._job}:
                self._job["Content-Type"] = "application/json"

    def request(self, hop: Hop) -> httpx.Request:
        """The request of this hop, signed now; see `http_redirects` for what one that is not trusted gets."""
        headers = httpx.Headers(_DEFAULTS)
        if hop.trusted:
            job = [(name.encode("ascii"), text.encode("latin-1")) for name, text in self._job.items()]
            headers.update(httpx.Headers(job))
            headers.update(self._callback)
        headers.update(self._run)
        body = self.body if hop.with_body else b""
        request = httpx.Request(hop.method, hop.url, headers=headers, content=body)
        if hop.trusted and self._keys:
            request.headers[HEADER] = sign(
                self._keys,
                second=int(clock.now().timestamp()),
                method=request.method,
                target=request.url.raw_path.decode("ascii"),
                key=self._run["Idempotency-Key"],
                body=body,
            )
        return request


def _run_headers(values: dict[str, str]) -> dict[str, str]:
    """What says which run this is."""
    return {
        "Idempotency-Key": values["runId"],
        "Tocsin-Run-Id": values["runId"],
        "Tocsin-Attempt": values["attempt"],
        "Tocsin-Nominal-Time": values["nominalTime"],
        "Tocsin-Job": values["jobName"],
    }
