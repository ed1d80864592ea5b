"""Write idle jobs with their triggers by COPY: due at some time in the next month, about 1 KB each.

    TOCSIN_DATABASE_URL=… python ops/bench/load.py COUNT NAME [NUMBER]

Jobs are written as the API would have written them. Several loaders at once take other NUMBERs.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import stand

from tocsin.settings import load

_CHUNK = 20_000
_HOURS = 30 * 24


def main() -> int:
    """Load."""
    count, name, number = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with stand.connect(load().shards.shards[0].url) as conn:
        begin = stand.later(conn, 86_400)
        for chunk, done in enumerate(range(0, count, _CHUNK)):
            at = begin + timedelta(hours=(chunk * 7 + number) % _HOURS)
            stand.fill(
                conn,
                min(_CHUNK, count - done),
                at,
                every="720h",
                name=f"{name}-{number}-{chunk}",
                analyze=False,
            )
        conn.execute("ANALYZE jobs, triggers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
