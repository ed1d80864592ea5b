"""Jitter: a stable delay of one run, so that many jobs with one nominal time do not start at once.

The delay is a function of the job and the nominal time and of nothing else, so any process and the
database's own md5() give the same answer. MD5 spreads the values; nothing here is a secret.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime, timedelta

from tocsin.clock import to_micros

_MICROSECOND = timedelta(microseconds=1)


def jitter_for(job_id: uuid.UUID, nominal: datetime, jitter: timedelta) -> timedelta:
    """The delay in [0, jitter) for that run, in whole microseconds.

    With h the first 8 hex digits of md5("<job_id>:<nominal in microseconds>"): jitter * h / 2**32, rounded
    down. Raises ValueError for a naive `nominal`.
    """
    text = f"{job_id}:{to_micros(nominal)}"
    share = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
    return timedelta(microseconds=(jitter // _MICROSECOND) * share // 2**32)
