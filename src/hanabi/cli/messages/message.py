"""`hanabi message`: single messages."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.messages import send as send_command
from hanabi.cli.shared import completion, message_form
from hanabi.cli.shared.administration import Site, command
from hanabi.cli.shared.cluster import FAILED
from hanabi.cli.shared.render import moment, pairs, table
from hanabi.cli.shared.times import parse_time
from hanabi.errors import ConfigError
from hanabi.wire.system_names import TRACE_TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hanabi.admin import Admin
    from hanabi.admin.messages import DirectConsumption, Recalled, TraceEvent
    from hanabi.cli.shared.message_line import MessageLine

app = typer.Typer(help="Find, read, send and follow messages.", no_args_is_help=True)
app.command("send")(send_command.send)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="The id that send prints, or a broker's own. --topic makes it quicker.")
]
TopicOption = Annotated[
    str | None, typer.Option("--topic", "-t", help="The topic that it is in.", autocompletion=completion.topics)
]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completion.topics)]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Stored then or later: 2026-11-15T06:45:00, UTC.")
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Stored before.")]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="At most so many.")]
BrokerName = Annotated[
    str | None,
    typer.Option("--broker", "-b", metavar="NAME", help="Only this broker.", autocompletion=completion.brokers),
]
Queue = Annotated[int | None, typer.Option("--queue", metavar="N", min=0, help="Only this queue.")]
OK_RESULTS = ("CR_SUCCESS", "CR_COMMIT")


@app.callback()
def _message() -> None:
    pass


@command(app, "get")
def get(
    site: Site,
    message_id: Annotated[str | None, typer.Argument(metavar="ID", help="Its id; or say its place.")] = None,
    topic: TopicOption = None,
    broker: BrokerName = None,
    queue: Queue = None,
    offset: Annotated[int | None, typer.Option("--offset", metavar="N", min=0, help="Its offset in the queue.")] = None,
) -> None:
    """Show one message: by its id, or by --topic, --broker, --queue and --offset."""
    from hanabi.cli.shared.message_line import message_line, message_text

    place = (broker, queue, offset)
    if message_id is not None and place == (None, None, None):
        found = site.run(lambda admin: admin.messages.get(message_id, topic))
    elif message_id is None and topic is not None and broker is not None and queue is not None and offset is not None:
        found = site.run(lambda admin: admin.messages.at(topic, broker, queue, offset))
    else:
        raise ConfigError("give an ID, or --topic, --broker, --queue and --offset")
    site.write(message_line(found), message_text)


@command(app, "query")
def query(
    site: Site,
    topic: TopicName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of its keys, or the id that its producer gave it.")],
    from_: From = None,
    to: To = None,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="At most so many of each broker.")] = 64,
) -> None:
    """Show the messages of a topic that have a key. Exit code 1: there is none."""
    from hanabi.cli.shared.message_line import message_line, short_text

    from_ms = 0 if from_ is None else parse_time("--from", from_)
    until_ms = 2**62 if to is None else parse_time("--to", to)
    found = site.run(lambda admin: admin.messages.query(topic, key, from_ms=from_ms, until_ms=until_ms, count=count))
    site.write_lines(map(message_line, found), short_text)
    if not found:
        typer.echo(f"hanabi: topic {topic} has no message with key {key}", err=True)
        raise typer.Exit(FAILED)


@command(app, "print")
def print_messages(
    site: Site,
    topic: TopicName,
    tags: Annotated[str, typer.Option("--tags", metavar="A||B", help="Only messages with one of these tags.")] = "*",
    from_: From = None,
    to: To = None,
    broker: BrokerName = None,
    queue: Queue = None,
    count: Count = None,
    full: message_form.Full = False,
    format: message_form.Format = None,
    raw: message_form.Raw = False,
) -> None:
    """Show the messages of a topic, queue by queue, up to now. To see those that come, use tail."""
    from hanabi.cli.shared.message_line import message_line

    form = message_form.message_form(full=full, template=format, raw=raw, json=site.as_json)

    async def read(admin: "Admin") -> "AsyncGenerator[MessageLine, None]":
        from hanabi.admin import Range

        chosen = Range(
            broker=broker,
            queue_id=queue,
            from_ms=None if from_ is None else parse_time("--from", from_),
            until_ms=None if to is None else parse_time("--to", to),
            tags=tags,
        )
        left = count
        async for message in admin.messages.read(topic, chosen):
            yield message_line(message)
            left = None if left is None else left - 1
            if left == 0:
                return

    site.stream(read, form)


@command(app, "recall")
def recall(
    site: Site,
    handle: Annotated[
        str, typer.Argument(metavar="HANDLE", help="The handle that send --delay TIME prints, or its recall_handle.")
    ],
) -> None:
    """Take back a timed message that is not due yet. Exit code 1: the broker refuses; the message may be delivered."""
    site.show(lambda admin: admin.messages.recall(handle), _recall_text)


def _recall_text(found: "Recalled") -> str:
    return f"{found.broker} will not deliver message {found.message_id} of topic {found.topic}\n"


@command(app, "trace")
def trace(
    site: Site,
    message_id: Annotated[str, typer.Argument(metavar="ID|KEY", help="The id that its producer gave it, or a key.")],
    topic: Annotated[
        str, typer.Option("--topic", "-t", help="Where the traces are.", autocompletion=completion.topics)
    ] = TRACE_TOPIC,
) -> None:
    """Show when a message was sent and consumed, by which clients, and with which outcome, if its clients trace."""
    site.show(lambda admin: admin.messages.trace(message_id, topic), _trace_text)


def _trace_text(found: "list[TraceEvent]") -> str:
    return table(
        ("event", "time", "group", "topic", "ms", "ok", "retries", "state"),
        [
            (
                each.event,
                moment(each.time),
                each.group,
                each.topic,
                each.cost_ms,
                None if each.success is None else ("yes" if each.success else "no"),
                each.retries,
                each.state,
            )
            for each in found
        ],
    )


@command(app, "consume-directly")
def consume_directly(
    site: Site,
    message_id: Id,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The group that shall consume it.", autocompletion=completion.groups)
    ],
    topic: TopicOption = None,
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="ID",
            show_default="any",
            help="The member that gets it.",
            autocompletion=completion.members,
        ),
    ] = None,
) -> None:
    """Give a message to a consumer now, and say how its listener took it. No offset changes.

    Exit code 1: the listener did not succeed, or there is none.
    """
    found = site.run(lambda admin: admin.messages.consume_directly(group, message_id, topic=topic, client_id=client))
    site.write(found, _consumption_text)
    if found.result not in OK_RESULTS:
        raise typer.Exit(FAILED)


def _consumption_text(found: "DirectConsumption") -> str:
    return pairs(
        [
            ("result", found.result),
            ("client", found.client_id),
            ("ms", found.spent_ms),
            *([("remark", found.remark)] if found.remark else []),
        ]
    )
