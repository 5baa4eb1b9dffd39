"""Shared parts of administration commands: finding a cluster, output, questions to the user, exit codes.

    @command(app, "list")
    def list_topics(site: Site, cluster: Cluster = None) -> None: ...

becomes a command with the options of `list_topics` and, in place of *site*, those by which a cluster is reached and
`--json`. Exit codes: 0 done; 1 the cluster says no, cannot be reached, or the user said no; 2 written wrongly; 130 for
Ctrl-C.
"""

import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.shared import cluster, completion
from hanabi.cli.shared.output import json_line, output
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin import Admin, Where
    from hanabi.client.config import ClientConfig

INTERRUPTED = 130
CLEAR = "\x1b[H\x1b[2J"

T = TypeVar("T")
P = ParamSpec("P")

Json = Annotated[bool, typer.Option("--json", help="Write JSON, of a shape that stays.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch", "-w", metavar="SECONDS", min=0.1, show_default="once", help="Show it again every so often."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", "-c", metavar="NAME", help="Only brokers of this cluster.", autocompletion=completion.clusters
    ),
]
Broker = Annotated[
    str | None,
    typer.Option("--broker", "-b", metavar="NAME|ADDR", help="Only this broker.", autocompletion=completion.brokers),
]


class Site:
    """The cluster that a command works on, and where its answer goes."""

    def __init__(self, config: "ClientConfig", *, as_json: bool) -> None:
        self.config, self.as_json = config, as_json

    def run(self, work: "Callable[[Admin], Awaitable[T]]") -> T:
        """*work*'s result."""
        try:
            return self._run(work)
        except KeyboardInterrupt:
            typer.echo("hanabi: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def _run(self, work: "Callable[[Admin], Awaitable[T]]") -> T:
        from hanabi.admin import Admin
        from hanabi.remoting.loop import run

        configure_logging(LogLevel.ERROR, as_json=False)  # what went wrong is in the errors

        async def main() -> T:
            async with Admin(self.config) as admin:
                found = await work(admin)
                warn(
                    f"{name} has no master now, only slaves: what its master would answer is missing here"
                    for name in sorted(admin.access.without_master)
                )
                return found

        with cluster.errors_as_exit_code():
            return run(main())

    def show(
        self, work: "Callable[[Admin], Awaitable[T]]", text: Callable[[T], str], watch: float | None = None
    ) -> None:
        """Show *work*'s result, as JSON or as *text*; with *watch* again and again, until Ctrl-C."""
        if watch is None:
            self.write(self.run(work), text)
        else:
            self._watch(work, text, watch)

    def write(self, found: T, text: Callable[[T], str]) -> None:
        with output() as write:
            write(json_line(found) if self.as_json else text(found))

    def write_lines(self, found: Iterable[T], text: Callable[[T], str]) -> None:
        """Print one JSON object a line, or one *text* after another."""
        with output() as write:
            for each in found:
                write(json_line(each) if self.as_json else text(each))

    def stream(self, work: "Callable[[Admin], AsyncGenerator[T, None]]", text: Callable[[T], str | bytes]) -> None:
        """Show what *work* finds as it finds it: one JSON object a line, or one *text* after another."""
        from contextlib import aclosing

        with output() as write:

            async def all_of_it(admin: "Admin") -> None:
                async with aclosing(work(admin)) as found:
                    async for each in found:
                        write(json_line(each) if self.as_json else text(each))

            self.run(all_of_it)

    def done(self, found: Any, sentence: str) -> None:
        """Say that it is done: in JSON, *found*."""
        self.write(found, lambda _: f"{sentence}\n")

    def _watch(self, work: "Callable[[Admin], Awaitable[T]]", text: Callable[[T], str], seconds: float) -> None:
        import asyncio

        with output() as write:

            async def again(admin: "Admin") -> None:
                while True:
                    found = await work(admin)
                    if self.as_json:
                        write(json_line(found))
                    else:
                        write((CLEAR if sys.stdout.isatty() else "") + text(found) + "\n")
                    sys.stdout.flush()
                    await asyncio.sleep(seconds)

            with suppress(KeyboardInterrupt):  # which is how it ends: exit code 0, and nothing to say
                self._run(again)

    def confirm(self, question: str, yes: bool) -> None:
        """Go on only if the user wants it."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise ConfigError(f"{question} There is no terminal to ask on: say --yes")
        try:
            wanted = typer.confirm(question, err=True)
        except typer.Abort as aborted:  # Ctrl-C, or Ctrl-D
            typer.echo("\nhanabi: nothing was done", err=True)
            by_signal = isinstance(aborted.__context__, KeyboardInterrupt)
            raise typer.Exit(INTERRUPTED if by_signal else cluster.FAILED) from aborted
        if not wanted:
            typer.echo("hanabi: nothing was done", err=True)
            raise typer.Exit(cluster.FAILED)


def command(
    app: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Site, P], None]], Callable[Concatenate[Site, P], None]]:
    """Make a function a command of *app*: its first argument becomes the options that every such command has."""

    def register(function: Callable[Concatenate[Site, P], None]) -> Callable[Concatenate[Site, P], None]:
        own = list(inspect.signature(function).parameters.values())[1:]

        def called(
            *,
            namesrv: str | None,
            access_key: str | None,
            tls_config: Any,
            json: bool,
            **own_values: Any,
        ) -> None:
            site = Site(cluster.client_config(namesrv, "", access_key, tls_config), as_json=json)
            function(site, **own_values)  # type: ignore[call-arg]

        shared = [
            _parameter("namesrv", cluster.Namesrv, None),
            _parameter("access_key", cluster.AccessKey, None),
            _parameter("tls_config", cluster.TlsFile, None),
            _parameter("json", Json, False),
        ]
        parameters = [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *shared]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__doc__ = function.__doc__
        app.command(name)(called)
        return function

    return register


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def where(cluster_name: str | None, broker: str | None) -> "Where":
    from hanabi.admin import Where

    return Where(cluster=cluster_name, broker=broker)


def warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        typer.echo(f"hanabi: {sentence}", err=True)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
