"""`hanabi topic`: the topics of a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import (
    Broker,
    Cluster,
    Site,
    Watch,
    Yes,
    command,
    counted,
    warn,
    where,
)
from hanabi.cli.shared.done import TopicDeleted
from hanabi.cli.shared.render import moment, perm_text, table
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin import Admin
    from hanabi.admin.topics import RouteEntry, TopicListing, TopicOnBroker, TopicStatus

app = typer.Typer(help="Make, change, delete and look at topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completion.topics)]
All = Annotated[bool, typer.Option("--all", "-a", help="Also retry, dead-letter and system topics.")]
Queues = Annotated[
    int | None, typer.Option("--queues", metavar="N", min=1, help="Queues to write to and to read from.")
]
ReadQueues = Annotated[
    int | None, typer.Option("--read-queues", metavar="N", min=0, help="Queues that consumers read.")
]
WriteQueues = Annotated[
    int | None, typer.Option("--write-queues", metavar="N", min=0, help="Queues that producers write to.")
]
Perm = Annotated[str | None, typer.Option("--perm", metavar="RW|R|W|N", help="What is allowed; also 6, 4, 2 or 0.")]
Order = Annotated[
    bool | None, typer.Option("--order/--no-order", help="Name servers fix the queues, also while a broker is down.")
]
Attributes = Annotated[
    str, typer.Option("--attributes", metavar="+NAME=VALUE,-NAME", help="5.x: such as +message.type=FIFO.")
]
MessageType = Annotated[
    str | None,
    typer.Option(
        "--message-type",
        metavar="TYPE",
        help="5.x: NORMAL, FIFO, DELAY, TRANSACTION or MIXED, what clients of the gRPC protocol may send to it.",
    ),
]

DEFAULT_QUEUES = 8
TYPE_ATTRIBUTE = "message.type"
MESSAGE_TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
PERMS = {"rw": 6, "r": 4, "w": 2, "n": 0}


@app.callback()
def _topic() -> None:
    pass


@command(app, "list")
def list_topics(
    site: Site, all: All = False, cluster: Cluster = None, broker: Broker = None, watch: Watch = None
) -> None:
    """List the topics, with their queues on all brokers together."""
    import msgspec

    async def work(admin: "Admin") -> "TopicListing":
        found = await admin.topics.all(where(cluster, broker))
        if all:
            return found
        return msgspec.structs.replace(found, topics=[topic for topic in found.topics if topic.kind == "normal"])

    site.show(work, _listing_text, watch)


def _listing_text(found: "TopicListing") -> str:
    warn(f"{sentence}; its topics are shown without settings" for sentence in found.unreachable)
    return table(
        ("topic", "kind", "brokers", "read", "write", "perm", "order", "type"),
        [
            (
                topic.topic,
                topic.kind,
                ",".join(each.broker for each in topic.brokers),
                sum(each.read_queues for each in topic.brokers),
                sum(each.write_queues for each in topic.brokers),
                "/".join(sorted({perm_text(each.perm) for each in topic.brokers})),
                any(each.order for each in topic.brokers),
                "/".join(sorted({each.attributes.get(TYPE_ATTRIBUTE, "") for each in topic.brokers} - {""})),
            )
            for topic in found.topics
        ],
        empty="no topics",
    )


@command(app, "create")
def create(
    site: Site,
    topic: Name,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    order: Order = None,
    attributes: Attributes = "",
    message_type: MessageType = None,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Make a topic on all masters of the cluster, each with so many queues (8 if not said)."""
    both = DEFAULT_QUEUES if queues is None else queues
    if read_queues == write_queues == 0:
        raise ConfigError("a topic without queues can be neither written to nor read: give --queues 1 or more")
    found = site.run(
        lambda admin: admin.topics.create(
            topic,
            read_queues=both if read_queues is None else read_queues,
            write_queues=both if write_queues is None else write_queues,
            perm=6 if perm is None else parse_perm(perm),
            order=bool(order),
            attributes=with_message_type(attributes, message_type),
            where=where(cluster, broker),
        )
    )
    site.done(found, f"topic {topic} is made on {', '.join(each.broker for each in found)}")


@command(app, "update")
def update(
    site: Site,
    topic: Name,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    order: Order = None,
    attributes: Attributes = "",
    message_type: MessageType = None,
    cluster: Cluster = None,
    broker: Broker = None,
    yes: Yes = False,
) -> None:
    """Change a topic on the brokers that have it. What is not said stays as it is."""
    from hanabi.admin import TopicChange

    change = TopicChange(
        read_queues=queues if read_queues is None else read_queues,
        write_queues=queues if write_queues is None else write_queues,
        perm=None if perm is None else parse_perm(perm),
        order=order,
        attributes=with_message_type(attributes, message_type) or None,
    )
    if change == TopicChange():
        raise ConfigError("nothing to change: give --queues, --perm, --order, --message-type or --attributes")
    chosen = where(cluster, broker)
    if change.read_queues is not None:
        now = site.run(lambda admin: admin.topics.settings(topic, chosen))
        if any(each.read_queues > change.read_queues for each in now):
            site.confirm(f"Topic {topic}: what is unread in the queues taken away will not be read. Go on?", yes)
    found = site.run(lambda admin: admin.topics.update(topic, change, chosen))
    site.write(found, _settings_text)


@command(app, "perm")
def perm(
    site: Site,
    topic: Name,
    perm: Annotated[str, typer.Argument(metavar="RW|R|W|N", help="What is allowed from now on; also 6, 4, 2 or 0.")],
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Allow or forbid to read and to write a topic."""
    from hanabi.admin import TopicChange

    change = TopicChange(perm=parse_perm(perm))
    found = site.run(lambda admin: admin.topics.update(topic, change, where(cluster, broker)))
    site.write(found, _settings_text)


def _settings_text(found: "list[TopicOnBroker]") -> str:
    return table(
        ("broker", "read", "write", "perm", "order", "attributes"),
        [
            (
                each.broker,
                each.read_queues,
                each.write_queues,
                perm_text(each.perm),
                each.order,
                ",".join(f"{name}={value}" for name, value in each.attributes.items()),
            )
            for each in found
        ],
    )


@command(app, "delete")
def delete(site: Site, topic: Name, cluster: Cluster = None, yes: Yes = False) -> None:
    """Delete a topic: its messages, and how far its groups have come."""
    if not yes:
        messages = site.run(lambda admin: admin.topics.messages_to_delete(topic))
        site.confirm(f"Delete topic {topic} with {counted(messages, 'message')}?", yes)
    brokers = site.run(lambda admin: admin.topics.delete(topic, cluster))
    site.done(
        TopicDeleted(topic=topic, brokers=brokers), f"topic {topic} is deleted on {', '.join(brokers) or 'no broker'}"
    )


@command(app, "route")
def route(site: Site, topic: Name, watch: Watch = None) -> None:
    """Show the route of a topic: the brokers and queues that clients get from the name server."""
    site.show(lambda admin: admin.topics.route(topic), _route_text, watch)


def _route_text(found: "list[RouteEntry]") -> str:
    return table(
        ("broker", "cluster", "read", "write", "perm", "type", "addresses"),
        [
            (
                entry.broker,
                entry.cluster,
                entry.read_queues,
                entry.write_queues,
                perm_text(entry.perm),
                entry.message_type,
                " ".join(f"{number}={address}" for number, address in entry.addresses.items()),
            )
            for entry in found
        ],
    )


@command(app, "status")
def status(site: Site, topic: Name, watch: Watch = None) -> None:
    """Show what each queue of a topic holds."""
    site.show(lambda admin: admin.topics.status(topic), _status_text, watch)


def _status_text(found: "TopicStatus") -> str:
    rows = [
        (each.broker, each.queue_id, each.min_offset, each.max_offset, each.messages, moment(each.last_stored))
        for each in found.queues
    ]
    return table(("broker", "queue", "first", "next", "messages", "last stored"), rows) + (
        f"{counted(found.messages, 'message')} in {counted(len(found.queues), 'queue')}\n"
    )


def with_message_type(attributes: str, message_type: str | None) -> str:
    """Return the changes in *attributes*, and that of the message type, if one is given."""
    if message_type is None:
        return attributes
    if message_type.upper() not in MESSAGE_TYPES:
        raise ConfigError(f"--message-type {message_type}: must be one of {', '.join(MESSAGE_TYPES)}")
    change = f"+{TYPE_ATTRIBUTE}={message_type.upper()}"
    return f"{attributes},{change}" if attributes else change


def parse_perm(text: str) -> int:
    """RW and so on, or the number."""
    if text.isascii() and text.isdigit() and int(text) in PERMS.values():
        return int(text)
    try:
        return PERMS[text.lower()]
    except KeyError:
        raise ConfigError(f"permission {text}: must be RW, R, W or N, or 6, 4, 2 or 0") from None
