"""Completion in shells: its script, and the names that it offers.

Names of topics, groups, brokers and clusters are asked of the cluster that the words before them describe. A cluster
that does not answer within a second (or HANABI_COMPLETION_SECONDS) gives no names and no message: the user is typing.
"""

import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.completion import get_completion_inspect_parameters, install_callback, show_callback

from hanabi.cli.shared import cluster
from hanabi.errors import ConfigError, MQError

if TYPE_CHECKING:
    from hanabi.admin import Admin
    from hanabi.client.config import ClientConfig

PATIENCE_SECONDS: Final = 1.0
PATIENCE_VARIABLE: Final = "HANABI_COMPLETION_SECONDS"
BROKER_SHARE: Final = 0.7  # a broker that hangs leaves time for the answers of other brokers
SHELLS: Final = ("bash", "zsh", "fish", "powershell", "pwsh")
CALLERS_SHELL: Final = "auto"
OPTIONS: Final = ("--install-completion", "--show-completion")
# zsh reads an installed script at the first Tab, as the function of this name: without this that Tab does nothing.
FIRST_TAB: Final = """
if [[ "$funcstack[1]" = _hanabi ]]; then
  _hanabi_completion "$@"
fi
"""
TYPED_PLAINLY: Final = re.compile(r"[\w%.@#=-]+", re.ASCII)  # zsh evaluates what it is offered: nothing to obey
HIDDEN: Final = "%"  # of retry and dead-letter topics, which are offered when this is typed

Ask = Callable[["Admin", typer.Context], Awaitable[Iterable[str]]]
Complete = Callable[[typer.Context, str], list[str]]


# The script


def with_shell(arguments: Sequence[str]) -> list[str]:
    """*arguments*, in which an option for completion that names no shell means the caller's. Pure."""
    return [*arguments, CALLERS_SHELL] if arguments and arguments[-1] in OPTIONS else list(arguments)


def install(context: typer.Context, shell: str | None) -> None:
    """Install the script, and end."""
    if shell is not None:
        named = _checked(shell)
        try:
            install_callback(context, context.command.params[0], named)
        finally:
            if named == "zsh" and (script := Path.home() / ".zfunc" / "_hanabi").exists():
                script.write_text(f"{script.read_text().rstrip()}\n{FIRST_TAB}")


def show(context: typer.Context, shell: str | None) -> None:
    """Show the script, and end."""
    if shell is not None:
        named = _checked(shell)
        try:
            show_callback(context, context.command.params[0], named)
        finally:
            if named == "zsh":
                typer.echo(FIRST_TAB, nl=False)


def _checked(shell: str) -> str:
    """Return the name of a shell that can complete."""
    named = _callers_shell() if shell == CALLERS_SHELL else shell
    if named not in SHELLS:
        raise ConfigError(f"there is no completion for the shell {named}: it must be one of {', '.join(SHELLS)}")
    return named


def _callers_shell() -> str:
    """Return the shell that runs this process."""
    from shellingham import ShellDetectionFailure, detect_shell  # type: ignore[import-untyped]

    try:
        return str(detect_shell()[0])
    except ShellDetectionFailure as error:
        raise ConfigError(f"the shell that runs this cannot be told: name it, one of {', '.join(SHELLS)}") from error


def prepare(environment: MutableMapping[str, str]) -> None:
    """Make typer's answers to shells known, and join the words of *environment* that bash took apart."""
    get_completion_inspect_parameters()
    words = environment.get("COMP_WORDS", "").split("\n")
    current = environment.get("COMP_CWORD", "")
    if len(words) > 1 and current.isdigit():
        joined, at = join_colons(words, int(current))
        environment.update(COMP_WORDS="\n".join(joined), COMP_CWORD=str(at))


def join_colons(words: Sequence[str], current: int) -> tuple[list[str], int]:
    """Words without the breaks that bash makes at colons, and the number of the *current* one among them. Pure."""
    joined: list[str] = []
    at, follows = current, False
    for number, word in enumerate(words):
        colons = bool(word) and not word.strip(":")
        if joined and (colons or follows):
            joined[-1] += word
            at -= number <= current
        else:
            joined.append(word)
        follows = colons
    return joined, at


# Names


def _completing(ask: Ask) -> Complete:
    """Return a function for typer that completes a word with the names that *ask* finds."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return matching(_asked(context, ask), incomplete)

    return complete


def matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the *names* that begin so and can be typed without quotes. Pure."""
    return sorted(
        {
            name
            for name in names
            if name.startswith(incomplete)
            and TYPED_PLAINLY.fullmatch(name)
            and (incomplete or not name.startswith(HIDDEN))
        }
    )


def inside(names: Iterable[str], namespace: str) -> list[str]:
    """Give the topics of *namespace* by the names that the command adds it to; without one, all *names*. Pure."""
    from hanabi.client.namespace import unwrap

    known = [(name, unwrap(namespace, name)) for name in names]
    return [bare for name, bare in known if not namespace or bare != name]


def _asked(context: typer.Context, ask: Ask) -> list[str]:
    """Return the names at the cluster; none if it cannot be asked."""
    import asyncio

    from hanabi.admin import Admin
    from hanabi.remoting.loop import run

    async def main() -> list[str]:
        seconds = _patience()
        admin = Admin(_config(context.params), request_timeout_s=seconds * BROKER_SHARE)
        async with asyncio.timeout(seconds), admin:
            return list(await ask(admin, context))

    logging.disable(logging.CRITICAL)  # a line of log would stand in the line that the user types
    with suppress(MQError, OSError, TimeoutError):
        return run(main())
    return []


def _patience() -> float:
    try:
        return max(float(os.environ.get(PATIENCE_VARIABLE, "")), 0.1)
    except ValueError:
        return PATIENCE_SECONDS


def _config(given: dict[str, Any]) -> "ClientConfig":
    """Return the cluster of the words that are written."""
    return cluster.client_config(given.get("namesrv"), "", given.get("access_key"), given.get("tls_config"))


async def _topics(admin: "Admin", context: typer.Context) -> list[str]:
    from hanabi.admin.topics import kind_of

    names = [name for name in await admin.topics.names() if kind_of(name) != "system"]
    return inside(names, context.params.get("namespace") or "")


async def _groups(admin: "Admin", _: typer.Context) -> list[str]:
    from hanabi.admin.groups import kind_of

    return [name for name in await admin.groups.names() if kind_of(name) == "normal"]


async def _brokers(admin: "Admin", _: typer.Context) -> list[str]:
    return [each.broker for each in await admin.access.brokers()]


async def _clusters(admin: "Admin", _: typer.Context) -> list[str]:
    return [each.cluster for each in await admin.access.brokers()]


async def _members(admin: "Admin", context: typer.Context) -> list[str]:
    group = context.params.get("group") or next(reversed(context.args), "")  # click leaves arguments unnamed here
    return [each.client_id for each in (await admin.groups.members(group)).members]


async def _keys(admin: "Admin", context: typer.Context) -> list[str]:
    tables = await admin.name_servers.values(context.params.get("namespace") or "")
    return [key for each in tables for key in each.values]


async def _broker_settings(admin: "Admin", _: typer.Context) -> list[str]:
    return [f"{key}=" for each in await admin.brokers.config() for key in each.values]


async def _name_server_settings(admin: "Admin", _: typer.Context) -> list[str]:
    return [f"{key}=" for each in await admin.name_servers.config() for key in each.values]


topics = _completing(_topics)
groups = _completing(_groups)
brokers = _completing(_brokers)
clusters = _completing(_clusters)
members = _completing(_members)
keys = _completing(_keys)
broker_settings = _completing(_broker_settings)
name_server_settings = _completing(_name_server_settings)


def profiles(incomplete: str) -> list[str]:
    """Complete the name of a profile."""
    from hanabi.cli.shared.profiles import profiles_path, read_profiles

    with suppress(ConfigError):
        return matching(read_profiles(profiles_path()).profiles, incomplete)
    return []


def pipelines(incomplete: str) -> list[str]:
    """Complete the name of a pipeline."""
    from hanabi.spark.pipelines.catalogue import SUMMARIES

    return matching(SUMMARIES, incomplete)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Complete one of *words*."""

    def complete(incomplete: str) -> list[str]:
        return matching(words, incomplete)

    return complete
