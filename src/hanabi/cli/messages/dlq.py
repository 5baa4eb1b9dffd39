"""`hanabi dlq`: dead letters, which groups failed on for good."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Site, Watch, Yes, command, counted
from hanabi.cli.shared.cluster import FAILED
from hanabi.cli.shared.done import LettersSaved
from hanabi.cli.shared.output import json_line
from hanabi.cli.shared.render import moment, table
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hanabi.admin import Admin
    from hanabi.admin.dead_letters import DeadLetters, Resent
    from hanabi.cli.shared.message_line import MessageLine

app = typer.Typer(help="Look at dead letters, save them, send them again.", no_args_is_help=True)

Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group that failed on them.", autocompletion=completion.groups)
]
Waiting = Annotated[bool, typer.Option("--waiting", help="Only those that were not sent again.")]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="At most so many.")]


@app.callback()
def _dlq() -> None:
    pass


@command(app, "list")
def list_letters(site: Site, watch: Watch = None) -> None:
    """List the groups that have dead letters."""
    site.show(lambda admin: admin.dead_letters.all(), _list_text, watch)


def _list_text(found: "list[DeadLetters]") -> str:
    return table(
        ("group", "messages", "waiting", "last stored"),
        [(each.group, each.messages, each.waiting, moment(each.last_stored)) for each in found],
        empty="no dead letters",
    )


@command(app, "show")
def show(
    site: Site,
    group: Group,
    waiting: Waiting = False,
    count: Count = None,
    full: Annotated[bool, typer.Option("--full", help="All of each message, not just a line.")] = False,
) -> None:
    """Show the dead letters of a group."""
    from hanabi.cli.shared.message_line import message_text, short_text

    site.stream(lambda admin: _lines(admin, group, waiting, count), message_text if full else short_text)


async def _lines(admin: "Admin", group: str, waiting: bool, count: int | None) -> "AsyncGenerator[MessageLine, None]":
    from hanabi.cli.shared.message_line import message_line

    left = count
    async for letter in admin.dead_letters.read(group, again=not waiting):
        yield message_line(letter)
        left = None if left is None else left - 1
        if left == 0:
            return


@command(app, "export")
def export(
    site: Site,
    group: Group,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; one JSON object a line.")],
    waiting: Waiting = False,
    yes: Yes = False,
) -> None:
    """Save the dead letters of a group in a file. It is there when all of them are in it, and not before."""
    if _exists(file):
        site.confirm(f"Write over {file}?", yes)
    part = file.with_name(f"{file.name}.part")

    async def save(admin: "Admin") -> int:
        saved = 0
        with part.open("w", encoding="utf-8") as out:
            async for line in _lines(admin, group, waiting, None):
                out.write(json_line(line))
                saved += 1
        return saved

    try:
        saved = site.run(save)
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # where it cannot be deleted it could not be written either
            part.unlink(missing_ok=True)
    done = LettersSaved(group=group, file=str(file), messages=saved)
    site.done(done, f"{counted(saved, 'dead letter')} of {group} saved in {file}")


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror or error}") from error


@command(app, "resend")
def resend(
    site: Site,
    group: Group,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.001, help="At most so many a second.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    to_origin: Annotated[
        bool, typer.Option("--to-origin", help="To the topic that they came from, where every group gets them.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Also those that were sent again before.")] = False,
    id: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this one; may be repeated.")] = None,
    count: Count = None,
    yes: Yes = False,
) -> None:
    """Send dead letters to their group again, as if they had never been tried.

    Interrupted, it goes on the next time where it was; at most the last few letters are sent twice. Letters that do not
    say where they came from are passed over: exit code 1.
    """
    if not dry_run:
        found = site.run(lambda admin: admin.dead_letters.of(group))
        many = len(id) if id else found.messages if again else found.waiting
        many = many if count is None else min(many, count)
        goal = "the topics that they came from" if to_origin else f"group {group}"
        site.confirm(f"Send {counted(many, 'dead letter')} to {goal} again?", yes)
    passed_over = sent = 0
    with _progress_bar() as (on_total, on_one):

        async def work(admin: "Admin") -> "AsyncGenerator[Resent, None]":
            nonlocal passed_over, sent
            from contextlib import aclosing

            resending = admin.dead_letters.resend(
                group,
                to_origin=to_origin,
                rate=rate,
                again=again,
                dry_run=dry_run,
                count=count,
                ids=frozenset(id or ()),
                on_total=on_total,
            )
            async with aclosing(resending) as letters:
                async for letter in letters:
                    passed_over += letter.problem is not None
                    sent += letter.sent
                    on_one()
                    yield letter

        site.stream(work, _resent_text)
    if not site.as_json:
        typer.echo(f"hanabi: {counted(sent, 'dead letter')} sent again, {passed_over} passed over", err=True)
    if passed_over:
        raise typer.Exit(FAILED)


def _resent_text(each: "Resent") -> str:
    place = f"{each.broker}/{each.queue_id}@{each.queue_offset}"
    what = f"passed over: {each.problem}" if each.problem else f"{'to' if each.sent else 'would go to'} {each.to_topic}"
    return f"{each.message_id} {place} {what}\n"


@contextmanager
def _progress_bar() -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
    """Provide a bar on stderr if that is a terminal and the letters themselves go somewhere else."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _: None, lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("dead letters", total=None)
        yield lambda total: progress.update(task, total=total), lambda: progress.advance(task)
