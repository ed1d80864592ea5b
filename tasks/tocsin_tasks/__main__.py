"""`python -m tocsin_tasks [--tier TIER]… [--pool POOL]…`: a worker with the settings of the environment."""

from __future__ import annotations

import argparse
import logging
import sys

from tocsin.errors import InvalidError
from tocsin.model.status import Tier
from tocsin.settings import load
from tocsin_tasks.worker import run


def main() -> int:
    """Parse the few options and work."""
    parser = argparse.ArgumentParser(prog="tocsin_tasks", description="Execute tocsin's runs.")
    parser.add_argument(
        "--tier",
        action="append",
        choices=[tier.value for tier in Tier],
        help="consume this tier only; may be given several times",
    )
    parser.add_argument(
        "--pool", action="append", help="serve this pool only, not TOCSIN_POOLS; may be given several times"
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = load(**({"pools": ",".join(options.pool)} if options.pool else {}))
    except InvalidError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    return run(settings, [Tier(name) for name in options.tier or Tier])


if __name__ == "__main__":
    sys.exit(main())
