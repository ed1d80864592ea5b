"""The conditions of a dev server's start."""

from __future__ import annotations

from tocsin_cli.client import Client
from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure


def migrate(database_url: str) -> None:
    """Bring the one shard to the newest schema."""
    from tocsin.store.migrate import upgrade

    upgrade(database_url)


def readyz(api: str) -> bool:
    """Whether the API says that it can serve."""
    try:
        with Client(api, timeout=5.0) as client:
            client.get("/readyz")
    except Failure:
        return False
    return True


def canary_done(client: Client, run_id: str) -> bool:
    """Whether the canary run has succeeded. Raises Failure when it has ended otherwise."""
    run = client.get(f"/runs/{run_id}")
    if run["status"] in {"failed", "cancelled", "skipped"}:
        raise Failure(
            f"the canary run {run['status']}: {run.get('error') or run.get('reason')}",
            exit_code=ExitCode.UNREACHABLE,
            code="canary_failed",
            fix="start again with --verbose and read what the worker says",
        )
    return bool(run["status"] == "succeeded")
