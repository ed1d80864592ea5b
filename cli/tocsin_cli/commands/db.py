"""`tocsin db`: the schema of every shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, note
from tocsin_cli.services import settings_or_fail

if TYPE_CHECKING:
    from tocsin.store.shards import Shard

app = typer.Typer(
    help="Upgrade and check the databases.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@app.command("upgrade")
def upgrade_all() -> None:
    """Bring every shard to the newest schema; safe to repeat and to run twice at once."""
    settings = settings_or_fail()
    from sqlalchemy.exc import OperationalError

    from tocsin.store.migrate import PooledError, head, upgrade

    for shard in settings.shards.shards:
        try:
            upgrade(shard.direct, partitions=shard.partitions(), days_ahead=settings.days_ahead)
        except OperationalError as error:
            raise _unreachable(shard, error) from None
        except PooledError as error:
            raise Failure(
                str(error),
                exit_code=ExitCode.INVALID,
                code="pooled",
                fix="set TOCSIN_DIRECT_URL to the addresses without the pooler, written like TOCSIN_DATABASE_URL",
            ) from None
        print(f"{shard.name}\t{head()}")


@app.command("check")
def check() -> int:
    """Say whether every shard has the newest schema; exit code 1 when one has not."""
    settings = settings_or_fail()
    from tocsin.store.migrate import head

    behind = 0
    for shard in settings.shards.shards:
        found = _revision(shard)
        print(f"{shard.name}\t{found or 'empty'}")
        behind += found != head()
    if behind:
        note(f"{behind} of {len(settings.shards.shards)} shards are not at {head()}: run `tocsin db upgrade`")
    return ExitCode.NO if behind else ExitCode.OK


def _revision(shard: Shard) -> str | None:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import OperationalError
    from sqlalchemy.pool import NullPool

    from tocsin.store.connections import sqlalchemy_url
    from tocsin.store.migrate import current

    try:
        with create_engine(sqlalchemy_url(shard.url), poolclass=NullPool).connect() as connection:
            return current(connection)
    except OperationalError as error:
        raise _unreachable(shard, error) from None


def _unreachable(shard: Shard, error: Exception) -> Failure:
    return Failure(
        f"the database of partitions {shard.name} cannot be reached",
        exit_code=ExitCode.UNREACHABLE,
        code="shard_unavailable",
        where=str(error).splitlines()[0][:200],
        fix="check TOCSIN_DATABASE_URL and that the server runs",
    )
