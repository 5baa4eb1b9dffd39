"""`hanabi store`: look into a store, ours or Apache's, while a broker runs on it or not. Never writes, never locks.

What is looked at is in `hanabi.store.inspection`, imported when a command runs; here are options, output, exit codes.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.shared.output import json_line, output
from hanabi.cli.shared.times import parse_time
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.store.inspection.home import StoreHome
    from hanabi.store.inspection.messages import Wanted

DAMAGE_FOUND = 1

app = typer.Typer(help="Look into a store, ours or Apache's. Never writes.", no_args_is_help=True)

Home = Annotated[Path, typer.Option("--home", metavar="DIR", help="The store: RocketMQ's storePathRootDir.")]
CommitLog = Annotated[
    Path | None,
    typer.Option("--commit-log", metavar="DIR", show_default="commitlog in the store", help="storePathCommitLog."),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Only this topic.")]
Queue = Annotated[int | None, typer.Option("--queue", metavar="N", min=0, help="Only this queue.")]
Offset = Annotated[int | None, typer.Option("--offset", metavar="N", min=0, help="From this queue offset on.")]
Key = Annotated[str | None, typer.Option("--key", help="Only with this key or unique key.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Stored then or later: 2026-11-15T06:45:00, UTC, or milliseconds."),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Stored before.")]
LogOffset = Annotated[
    int | None, typer.Option("--log-offset", metavar="N", min=0, help="From this offset of the commit log on.")
]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=0, help="At most so many.")]
Queues = Annotated[bool, typer.Option("--queues", help="Entries of the consume queues instead of messages.")]
Index = Annotated[bool, typer.Option("--index", help="Entries of the key index instead of messages.")]
DelayLevels = Annotated[
    str | None,
    typer.Option(
        "--delay-levels", metavar="LEVELS", help="The broker's messageDelayLevel: also check when messages are due."
    ),
]

DEFAULT_HOME = Path("hanabi-data")


@app.callback()
def _store() -> None:
    pass


@app.command()
def info(home: Home = DEFAULT_HOME, commit_log: CommitLog = None, json: Json = False) -> None:
    """Show files, offsets, times, queues, index, checkpoint and tables, without reading all of the store."""
    from hanabi.cli.store.text import overview_text
    from hanabi.store.inspection.overview import survey

    with output() as write:
        overview = survey(_open(home, commit_log))
        write(json_line(overview) if json else overview_text(overview))


@app.command()
def verify(
    home: Home = DEFAULT_HOME, commit_log: CommitLog = None, delay_levels: DelayLevels = None, json: Json = False
) -> None:
    """Check every record, every queue entry and the key index.

    Exit code 0: all is well. 1: something is damaged, and the output says where. 2: it could not be looked at.
    """
    from hanabi.cli.store.text import verify_text
    from hanabi.store.inspection.verify.verify import verify as verify_store

    with output() as write:
        opened = _open(home, commit_log)
        with _progress_bar() as on_progress:
            report = verify_store(opened, delay_levels=delay_levels, on_progress=on_progress)
        write(json_line(report) if json else verify_text(report))
    if not report.clean:
        raise typer.Exit(DAMAGE_FOUND)


@app.command()
def dump(
    home: Home = DEFAULT_HOME,
    commit_log: CommitLog = None,
    topic: Topic = None,
    queue: Queue = None,
    offset: Offset = None,
    key: Key = None,
    from_: From = None,
    to: To = None,
    log_offset: LogOffset = None,
    count: Count = None,
    queues: Queues = False,
    index: Index = False,
    json: JsonLines = False,
) -> None:
    """Show messages, in the order of the log; with --topic and --queue in that of the queue.

    What cannot be read is named on stderr and passed over; the exit code is then 1.
    """
    from hanabi.store.inspection.messages import Wanted

    if queues and index:
        raise ConfigError("--queues and --index are two different things: choose one")
    if index and (topic is None) != (key is None):
        raise ConfigError("--index finds a key by the hash of topic and key: give both --topic and --key, or neither")
    wanted = Wanted(
        topic=topic,
        queue_id=queue,
        queue_offset=offset,
        key=key,
        from_ms=None if from_ is None else parse_time("--from", from_),
        to_ms=None if to is None else parse_time("--to", to),
        log_offset=log_offset,
        count=count,
    )
    opened = _open(home, commit_log)
    with output() as write:
        if queues or index:
            _dump_entries(opened, wanted, write, of_index=index, as_json=json)
            return
        broken = _dump_messages(opened, wanted, write, as_json=json)
    if broken:
        raise typer.Exit(DAMAGE_FOUND)


def _dump_messages(home: "StoreHome", wanted: "Wanted", write: Callable[[str], None], *, as_json: bool) -> int:
    from hanabi.cli.shared.message_line import BODY_CHARACTERS_MAX, message_text
    from hanabi.cli.store.text import record_line
    from hanabi.store.inspection.messages import find_messages

    broken = 0

    def on_broken(sentence: str) -> None:
        nonlocal broken
        broken += 1
        typer.echo(f"hanabi: {sentence}", err=True)

    for record in find_messages(home, wanted, on_broken):
        line = record_line(record)
        write(json_line(line) if as_json else message_text(line, BODY_CHARACTERS_MAX))
    return broken


def _dump_entries(
    home: "StoreHome", wanted: "Wanted", write: Callable[[str], None], *, of_index: bool, as_json: bool
) -> None:
    from hanabi.cli.store.text import entry_text
    from hanabi.store.inspection.raw_entries import index_entries, queue_entries

    for entry in index_entries(home, wanted) if of_index else queue_entries(home, wanted):
        write(json_line(entry) if as_json else entry_text(entry))


def _open(home: Path, commit_log: Path | None) -> "StoreHome":
    from hanabi.store.inspection.home import StoreHome

    configure_logging(LogLevel.ERROR, as_json=False)  # what is worth telling is in the output
    return StoreHome.open(home, commit_log)


@contextmanager
def _progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Provide a bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda part, done, total: progress.update(task, description=part, completed=done, total=total)
