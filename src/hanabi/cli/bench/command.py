"""`hanabi bench`: measure a cluster, ours or Apache's, or a disk. Here are options, warnings, output and exit codes;
what is measured is in `hanabi.bench`, imported when a command runs.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hanabi.cli.bench import text as bench_text
from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import INTERRUPTED, Json, Site, Yes, command
from hanabi.cli.shared.cluster import FAILED, errors_as_exit_code
from hanabi.cli.shared.output import json_line, output
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin import Admin
    from hanabi.bench.preparation import TemporaryGroup
    from hanabi.bench.results import Consumed, EndToEnd, Produced, StoreMeasured
    from hanabi.bench.send_schedule import Limits
    from hanabi.cli.bench.progress import Progress, Stopped

SECONDS = 10.0
CONCURRENCY = 64
UNASKED_BYTES = 1_000_000_000  # more is written only with --yes
BODY_BYTES_MAX = 4 << 20  # what brokers take unless they are told otherwise
FIRST, LAST = "first", "last"

app = typer.Typer(help="Measure a cluster, ours or Apache's, or a disk.", no_args_is_help=True)
T = TypeVar("T")

Topic = Annotated[str, typer.Option("--topic", "-t", help="The topic.", autocompletion=completion.topics)]
Size = Annotated[int, typer.Option("--size", metavar="BYTES", min=1, max=BODY_BYTES_MAX, help="Of each body.")]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds", metavar="S", min=0.1, max=86_400, show_default="10, unless --count", help="Measure for so long."
    ),
]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Measure so many messages instead.")]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", metavar="N", min=1, max=10_000, show_default="64", help="Sends under way at once."),
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="R", min=0.001, show_default="as fast as it goes", help="Messages a second."),
]
Create = Annotated[bool, typer.Option("--create", help="Make the topic if there is none; it stays afterwards.")]


@app.callback()
def _bench() -> None:
    pass


@command(app, "produce")
def produce(
    site: Site,
    topic: Topic,
    size: Size = 1024,
    seconds: Seconds = None,
    count: Count = None,
    concurrency: Concurrency = None,
    rate: Rate = None,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Messages in one request.")] = 1,
    one_by_one: Annotated[
        bool, typer.Option("--sync-one-by-one", help="Send the next when the last one is answered.")
    ] = False,
    create: Create = False,
    yes: Yes = False,
) -> None:
    """Send messages, and show how many a second a topic takes and how long each send takes.

    The messages stay in the topic. At most 1 GB is sent unless --yes. Exit code 1: some messages failed.
    """
    from hanabi.bench.preparation import ensure_topic
    from hanabi.bench.produce import Load
    from hanabi.bench.produce import produce as measure
    from hanabi.cli.bench.progress import Progress, stop_signals

    if one_by_one and (concurrency is not None or batch != 1):
        raise ConfigError("--sync-one-by-one has one message under way: give no --concurrency and no --batch")
    if rate is not None and batch != 1:
        raise ConfigError("--rate is of single messages: give no --batch")
    workers = 1 if one_by_one else concurrency or CONCURRENCY
    limits = _limits(site, seconds, count, rate, size, yes)
    load = Load(topic=topic, limits=limits, size=size, concurrency=workers, batch=batch)
    progress = Progress(as_json=site.as_json)

    async def work(admin: "Admin", stopped: "Stopped") -> "Produced":
        bench_topic = await ensure_topic(admin, topic, create=create)
        progress.show_topic(bench_topic)
        progress.show(f"sending {size} bytes a message, {workers} at once, {bench_text.limits_text(limits)}")
        with stop_signals(stopped):
            return await measure(site.config, load, stopped.event, progress.second, topic_created=bench_topic.created)

    found, code = _measured(site, work, lambda found: bool(found.failed))
    site.write(found, bench_text.produced_text)
    _end(code)


@command(app, "consume")
def consume(
    site: Site,
    topic: Topic,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            show_default="one of its own, removed afterwards",
            help="Consume as a member of this group: its offsets move, and its other members get less.",
            autocompletion=completion.groups,
        ),
    ] = None,
    seconds: Seconds = None,
    count: Count = None,
    from_: Annotated[
        str,
        typer.Option("--from", metavar="first|last", help="Begin at the first message, or with what comes now."),
    ] = LAST,
    yes: Yes = False,
) -> None:
    """Receive messages, and show how many a second a topic gives and how old they are when they come.

    Ages compare the producers' clocks with this machine's. Exit code 1: nothing came.
    """
    from hanabi.bench.consume import Reading
    from hanabi.bench.consume import consume as measure
    from hanabi.bench.preparation import ensure_topic, temporary_group
    from hanabi.cli.bench.progress import Progress, stop_signals
    from hanabi.client.validation import check_group

    if from_ not in (FIRST, LAST):
        raise ConfigError(f"--from {from_}: must be {FIRST} or {LAST}")
    limits = _limits(site, seconds, count, None, 0, True)
    if group is not None:
        check_group(group)
        site.confirm(
            f"Messages of topic {topic} that come here count as consumed by group {group}, and are thrown away. Do it?",
            yes,
        )
    progress = Progress(as_json=site.as_json)

    async def work(admin: "Admin", stopped: "Stopped") -> "Consumed":
        import msgspec

        await ensure_topic(admin, topic, create=False)

        async def as_member(name: str) -> "Consumed":
            reading = Reading(topic=topic, group=name, limits=limits, start="first" if from_ == FIRST else "last")
            progress.show(f"receiving as group {name}, {bench_text.limits_text(limits)}")
            with stop_signals(stopped):
                return await measure(site.config, reading, stopped.event, progress.second)

        if group is not None:
            await admin.groups.settings(group)  # joining an unknown group would create it
            return await as_member(group)
        async with temporary_group(admin, topic, first=from_ == FIRST) as own:
            found = await as_member(own.name)
        _show_removal(progress, own)
        return msgspec.structs.replace(found, group_removed=own.removed)

    found, code = _measured(site, work, lambda found: not found.received.messages)
    site.write(found, bench_text.consumed_text)
    _end(code)


@command(app, "latency")
def latency(
    site: Site,
    topic: Topic,
    rate: Annotated[float, typer.Option("--rate", metavar="R", min=0.001, help="Messages a second.")] = 100.0,
    size: Size = 1024,
    seconds: Seconds = None,
    count: Count = None,
    concurrency: Concurrency = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="S", min=0.1, help="So long for the last ones to arrive.")
    ] = 5.0,
    create: Create = False,
    yes: Yes = False,
) -> None:
    """Send messages at a rate, receive them here, and show how long each took from send to listener.

    A message to each queue goes ahead, and is not measured. All of them stay in the topic; the group is one of its own
    and is removed. Exit code 1: messages failed, got lost, or came twice.
    """
    from hanabi.bench.end_to_end import Trip
    from hanabi.bench.end_to_end import end_to_end as measure
    from hanabi.bench.preparation import ensure_topic, temporary_group
    from hanabi.cli.bench.progress import Progress, stop_signals

    limits = _limits(site, seconds, count, rate, size, yes)
    progress = Progress(as_json=site.as_json)

    async def work(admin: "Admin", stopped: "Stopped") -> "EndToEnd":
        import msgspec

        bench_topic = await ensure_topic(admin, topic, create=create)
        progress.show_topic(bench_topic)
        async with temporary_group(admin, topic, first=False) as own:
            trip = Trip(
                topic=topic,
                group=own.name,
                limits=limits,
                size=size,
                concurrency=concurrency or CONCURRENCY,
                wait_seconds=wait,
            )
            progress.show(
                f"sending {size} bytes a message, and receiving as group {own.name}, {bench_text.limits_text(limits)}"
            )
            with stop_signals(stopped):
                found = await measure(
                    site.config, trip, stopped.event, progress.second, topic_created=bench_topic.created
                )
        _show_removal(progress, own)
        return msgspec.structs.replace(found, group_removed=own.removed)

    found, code = _measured(site, work, lambda found: bool(found.failed or found.lost or found.duplicated))
    site.write(found, bench_text.end_to_end_text)
    _end(code)


@app.command("store")
def store(
    home: Annotated[
        Path,
        typer.Option("--home", metavar="DIR", help="The directory on the disk to measure; a store is made inside."),
    ],
    size: Size = 1024,
    seconds: Seconds = None,
    count: Count = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Append, read and sync messages in a fresh store, in a folder inside DIR that is removed afterwards.

    No broker is needed, and no store that is there is touched. At most 1 GB is written unless --yes.
    """
    import asyncio

    from hanabi.bench.store import Work, measure_store
    from hanabi.cli.bench.progress import Progress, Stopped, stop_signals
    from hanabi.remoting.loop import run

    limits = _limits(None, seconds, count, None, size, yes)
    configure_logging(LogLevel.ERROR, as_json=False)
    progress, stopped = Progress(as_json=json), Stopped()
    progress.show(f"appending {size} bytes a message in a new folder in {home}, {bench_text.limits_text(limits)}")

    async def main() -> "StoreMeasured":
        work = Work(directory=home, limits=limits, size=size)
        with stop_signals(stopped):  # the loop hears of signals while a thread works
            return await asyncio.to_thread(measure_store, work, stopped.event.is_set, progress.second)

    with errors_as_exit_code():
        found = run(main())
    with output() as write:
        write(json_line(found) if json else bench_text.store_text(found))
    _end(stopped.exit_code)


def _measured(
    site: Site, work: "Callable[[Admin, Stopped], Awaitable[T]]", failed: Callable[[T], bool]
) -> tuple[T, int]:
    """Return what *work* measured, and the exit code."""
    from hanabi.cli.bench.progress import Stopped

    stopped = Stopped()
    found = site.run(lambda admin: work(admin, stopped))
    return found, stopped.exit_code or (FAILED if failed(found) else 0)


def _end(code: int) -> None:
    if code == INTERRUPTED:
        typer.echo("hanabi: interrupted", err=True)
    if code:
        raise typer.Exit(code)


def _limits(
    site: Site | None, seconds: float | None, count: int | None, rate: float | None, size: int, yes: bool
) -> "Limits":
    """Return the limits. Runs known to exceed 1 GB need --yes; unbounded runs stop at 1 GB."""
    from hanabi.bench.send_schedule import BESIDE_BODY_BYTES, Limits

    if seconds is not None and count is not None:
        raise ConfigError("--seconds and --count both say when to end: choose one")
    if count is None and seconds is None:
        seconds = SECONDS
    planned: float | None = None
    if count is not None:
        planned = count * (size + BESIDE_BODY_BYTES)
    elif rate is not None and seconds is not None:
        planned = rate * seconds * (size + BESIDE_BODY_BYTES)
    if planned is not None and planned > UNASKED_BYTES and not yes:
        question = f"That is about {planned / 1e9:.1f} GB on the disk."
        if site is None:
            raise ConfigError(f"{question} Say --yes if it shall be written")
        site.confirm(f"{question} Send it?", yes)
        yes = True
    return Limits(seconds=seconds, count=count, rate=rate, bytes_max=None if yes else UNASKED_BYTES)


def _show_removal(progress: "Progress", group: "TemporaryGroup") -> None:
    if group.removed:
        progress.show(f"group {group.name} is removed")
    else:
        progress.warn(f"group {group.name} could not be removed: {group.trouble}")
