"""The `hanabi` command: its groups of subcommands, and what becomes of an error."""

import os
import sys
from typing import Annotated, Any

import typer

from hanabi._version import __version__
from hanabi.cli.admin import (
    acl,
    broker,
    cluster_list,
    controller,
    doctor,
    group,
    namesrv,
    offset,
    profile,
    stats,
    topic,
    user,
    version,
)
from hanabi.cli.bench import command as bench
from hanabi.cli.cluster import command as cluster
from hanabi.cli.messages import consume, dlq, message, send, tail
from hanabi.cli.pipeline import command as pipeline
from hanabi.cli.serve import command as serve
from hanabi.cli.serve import dashboard
from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import INTERRUPTED, command
from hanabi.cli.shared.cluster import FAILED
from hanabi.cli.shared.output import discard_output
from hanabi.cli.shared.profiles import PROFILE_VARIABLE
from hanabi.cli.store import command as store
from hanabi.errors import MQError

USAGE_ERROR = 2  # the exit code for anything the user can mend: a taken port, a bad key, a locked home
STDERR = 2
HELP = ["-h", "--help"]

app = typer.Typer(
    name="hanabi",
    help="Hanabi: a RocketMQ-compatible message queue.",
    no_args_is_help=True,
    add_completion=False,  # ours take the name of a shell
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
)
app.add_typer(serve.app, name="serve")
app.add_typer(store.app, name="store")
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(offset.app, name="offset")
app.add_typer(broker.app, name="broker")
app.add_typer(cluster_list.app, name="cluster")
app.add_typer(message.app, name="message")
app.add_typer(dlq.app, name="dlq")
app.add_typer(namesrv.app, name="namesrv")
app.add_typer(controller.app, name="controller")
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.add_typer(profile.app, name="profile")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(bench.app, name="bench")
cluster_list.app.command()(cluster.plan)
cluster_list.app.command()(cluster.up)
app.command()(send.send)
app.command()(tail.tail)
app.command()(consume.consume)
app.command()(dashboard.dashboard)
command(app, "stats")(stats.stats)
command(app, "doctor")(doctor.doctor)
command(app, "version")(version.version)


def _choose_profile(name: str | None) -> None:
    """Let this command use a profile: the option is the variable for this process."""
    if name is not None:
        os.environ[PROFILE_VARIABLE] = name


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hanabi {__version__}")
        raise typer.Exit


@app.callback()
def _hanabi(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            envvar=PROFILE_VARIABLE,
            callback=_choose_profile,
            autocompletion=completion.profiles,
            help="Use the cluster of this profile (see: hanabi profile).",
        ),
    ] = None,
    install_completion: Annotated[
        str | None,
        typer.Option(
            "--install-completion",
            metavar="[SHELL]",
            callback=completion.install,
            autocompletion=completion.one_of(*completion.SHELLS),
            help="Install completion for bash, zsh or fish; without a name, for this shell.",
        ),
    ] = None,
    show_completion: Annotated[
        str | None,
        typer.Option(
            "--show-completion",
            metavar="[SHELL]",
            callback=completion.show,
            autocompletion=completion.one_of(*completion.SHELLS),
            help="Show the script of completion for a shell.",
        ),
    ] = None,
) -> None:
    pass


def _open_standard_streams() -> None:
    """Started with one of them closed, as some supervisors do, our first socket would take its number; uvloop aborts
    at that, and with asyncio the next `print` would go to a peer. What is missing becomes the null device."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:  # the lowest free number, each time
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)


def command_tree(prog_name: str) -> Any:
    """Return the whole tree of commands. Their help fills its lines, however wide, and names no type of a switch."""
    root = typer.main.get_command(app)
    commands: list[Any] = [root]
    while commands:
        each = commands.pop()
        commands += getattr(each, "commands", {}).values()
        each.help = _paragraphs(each.help or "")
        context = typer.Context(each, info_name=prog_name, help_option_names=HELP)
        for option in (*each.params, each.get_help_option(context)):
            if getattr(option, "is_flag", False) and option.metavar is None:
                option.metavar = ""
    return root


def _paragraphs(text: str) -> str:
    """*text* with one line a paragraph: typer keeps the ends of a docstring's lines in all but the first. Pure."""
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def main() -> None:
    """Run a command. An error that we raised on purpose, or that the operating system did, is one sentence and never a
    traceback."""
    _open_standard_streams()
    try:
        try:
            completion.prepare(os.environ)
            command_tree("hanabi")(completion.with_shell(sys.argv[1:]), prog_name="hanabi")
        finally:
            sys.stdout.flush()
    except MQError as error:
        typer.echo(f"hanabi: {error}", err=True)
        sys.exit(USAGE_ERROR)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        _end_with(error)


def _end_with(error: OSError) -> None:
    """Say what the operating system refused. An error without a file's name comes from writing the answer."""
    where = "the output cannot be written" if error.filename is None else str(error.filename)
    typer.echo(f"hanabi: {where}: {error.strerror or error}", err=True)
    discard_output()
    sys.exit(FAILED)
