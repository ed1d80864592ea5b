"""The conditions of a dev server's start."""

from __future__ import annotations

from collections.abc import Callable

from tocsin_cli.client import Client
from tocsin_cli.dev.samples import remove_canary, start_canary
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


def canary_done(client: Client, target: str) -> Callable[[], bool]:
    """A condition that is true once a run has succeeded from end to end. Raises Failure when it has not."""
    run = start_canary(client, target)

    def done() -> bool:
        found = client.get(f"/runs/{run['runId']}")
        if found["status"] in {"failed", "cancelled", "skipped"}:
            raise Failure(
                f"the canary run {found['status']}: {found.get('error') or found.get('reason')}",
                exit_code=ExitCode.UNREACHABLE,
                code="canary_failed",
                fix="start again with --verbose and read what the worker says",
            )
        if found["status"] != "succeeded":
            return False
        remove_canary(client)
        return True

    return done
