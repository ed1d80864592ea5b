"""The command `tocsin`: parse, run one command, turn every end into one of the exit codes.

Commands return an exit code (None is 0) or raise Failure. What is not expected is one line and code 70;
`--debug` (or TOCSIN_DEBUG=1) shows the traceback instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from tocsin_cli.exits import ExitCode
from tocsin_cli.failures import Failure, note, usage
from tocsin_cli.lazy import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    help="tocsin: run jobs at their time, at least once.",
    epilog="Exit codes: tocsin help exit-codes. The server: --server or TOCSIN_API_URL.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # not needed by any other command

        print(f"tocsin {version('tocsin')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a bug.")] = False,
) -> None:
    if debug:
        os.environ["TOCSIN_DEBUG"] = "1"


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        result = get_command(app).main(args=list(arguments), prog_name="tocsin", standalone_mode=False)
        sys.stdout.flush()
        return int(result or 0)
    except Failure as failure:
        note(failure.text())
        return failure.exit_code
    except typer.TyperException as error:
        return _usage_error(error)
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as leaving:  # Typer's answer to a broken pipe, and the end of a completion
        return _reader_gone() if leaving.code == 1 else int(leaving.code or 0)
    except Exception as error:
        return _bug(error)


def _usage_error(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tocsin"
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help text
        note(message)
    else:
        note(usage(message.rstrip("."), f"read {path} --help").text())
    return ExitCode.USAGE


def _reader_gone() -> int:
    """The reader of stdout (`| head`) has seen enough: that is no failure of ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return ExitCode.OK


def _bug(error: Exception) -> int:
    if os.environ.get("TOCSIN_DEBUG"):
        import traceback

        traceback.print_exception(error)
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    failure = Failure(
        f"this is a bug in tocsin: {summary}",
        exit_code=ExitCode.BUG,
        code="bug",
        fix="run the command again with `tocsin --debug …` and report the output",
    )
    note(failure.text())
    return failure.exit_code


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))
