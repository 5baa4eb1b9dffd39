"""The `hanabi` command: its groups of subcommands, and what becomes of an error."""

import sys
from typing import Annotated

import typer

from hanabi._version import __version__
from hanabi.cli import serve, store
from hanabi.errors import MQError

USAGE_ERROR = 2  # the exit code for anything the user can mend: a taken port, a bad key, a locked home

app = typer.Typer(
    name="hanabi",
    help="Hanabi: a RocketMQ-compatible message queue.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(serve.app, name="serve")
app.add_typer(store.app, name="store")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hanabi {__version__}")
        raise typer.Exit


@app.callback()
def _hanabi(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point. An error that we raised on purpose is one sentence, never a traceback."""
    try:
        app(prog_name="hanabi")
    except MQError as error:
        typer.echo(f"hanabi: {error}", err=True)
        sys.exit(USAGE_ERROR)
