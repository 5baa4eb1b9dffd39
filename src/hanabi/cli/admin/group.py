"""`hanabi group`: the consuming groups of a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Broker, Cluster, Site, Watch, Yes, command, counted, where
from hanabi.cli.shared.done import GroupDeleted
from hanabi.cli.shared.render import moment, pairs, table
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin.groups import (
        GroupMembers,
        GroupProgress,
        GroupSettings,
        GroupSubscriptions,
        GroupSummary,
        RequestMode,
        RunningInfo,
    )

app = typer.Typer(help="Make, delete and look at consuming groups.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=completion.groups)]
All = Annotated[bool, typer.Option("--all", "-a", help="Also those that brokers and tools have for themselves.")]
Topic = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.", autocompletion=completion.topics)]


@app.callback()
def _group() -> None:
    pass


@command(app, "list")
def list_groups(
    site: Site, all: All = False, cluster: Cluster = None, broker: Broker = None, watch: Watch = None
) -> None:
    """List the groups, with their members and how many messages they are behind."""
    site.show(lambda admin: admin.groups.all(where(cluster, broker), system=all), _list_text, watch)


def _list_text(found: "list[GroupSummary]") -> str:
    return table(
        ("group", "members", "model", "lag", "tps", "retries", "brokers"),
        [
            (
                group.group,
                group.members,
                group.message_model,
                group.lag,
                group.consume_tps,
                max(each.retry_max for each in group.brokers),
                ",".join(each.broker for each in group.brokers),
            )
            for group in found
        ],
        empty="no groups",
    )


@command(app, "create")
def create(
    site: Site,
    group: Name,
    retry_max: Annotated[
        int | None,
        typer.Option("--retry-max", metavar="N", min=-1, help="Tries before a message is a dead letter (16)."),
    ] = None,
    retry_queues: Annotated[
        int | None, typer.Option("--retry-queues", metavar="N", min=0, help="Queues for retries (1).")
    ] = None,
    consume: Annotated[bool | None, typer.Option("--consume/--no-consume", help="Whether it gets messages.")] = None,
    broadcast: Annotated[
        bool | None, typer.Option("--broadcast/--no-broadcast", help="Whether members may each want all messages.")
    ] = None,
    from_min: Annotated[
        bool | None, typer.Option("--from-min/--no-from-min", help="Whether it may begin with the oldest message.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Change one that is there.")] = False,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Make a group on all masters of the cluster; with --update, change one."""
    from hanabi.admin import GroupChange

    change = GroupChange(
        retry_max=retry_max,
        retry_queues=retry_queues,
        consume_enabled=consume,
        broadcast_enabled=broadcast,
        from_min_enabled=from_min,
    )
    chosen = where(cluster, broker)
    if update:
        found = site.run(lambda admin: admin.groups.update(group, change, chosen))
    else:
        found = site.run(lambda admin: admin.groups.create(group, change, chosen))
    site.write(found, _settings_text)


def _settings_text(found: "list[GroupSettings]") -> str:
    return table(
        ("broker", "consume", "broadcast", "from min", "retries", "retry queues"),
        [
            (
                each.broker,
                each.consume_enabled,
                each.broadcast_enabled,
                each.from_min_enabled,
                each.retry_max,
                each.retry_queues,
            )
            for each in found
        ],
    )


@command(app, "delete")
def delete(
    site: Site,
    group: Name,
    keep_offsets: Annotated[bool, typer.Option("--keep-offsets", help="Keep how far it has come.")] = False,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Its dead letters too.")] = False,
    cluster: Cluster = None,
    broker: Broker = None,
    yes: Yes = False,
) -> None:
    """Delete a group: its settings, its retries, and how far it has come."""
    if not yes:
        members = len(site.run(lambda admin: admin.groups.members(group)).members)
        too = ", and its dead letters" if dead_letters else ""
        site.confirm(f"Delete group {group}, which has {counted(members, 'member')} now{too}?", yes)
    chosen = where(cluster, broker)
    brokers = site.run(
        lambda admin: admin.groups.delete(group, chosen, keep_offsets=keep_offsets, dead_letters=dead_letters)
    )
    site.done(GroupDeleted(group=group, brokers=brokers), f"group {group} is deleted on {', '.join(brokers)}")


@command(app, "progress")
def progress(site: Site, group: Name, topic: Topic = None, watch: Watch = None) -> None:
    """Show how far a group has come in each queue, and how many messages it is behind."""
    site.show(lambda admin: admin.groups.progress(group, topic), _progress_text, watch)


def _progress_text(found: "GroupProgress") -> str:
    rows = [
        (
            each.topic,
            each.broker,
            each.queue_id,
            each.group_offset,
            each.max_offset,
            each.lag,
            each.in_flight,
            moment(each.last_consumed),
        )
        for each in found.queues
    ]
    columns = ("topic", "broker", "queue", "group", "next", "lag", "in flight", "last consumed")
    in_flight = f", {found.in_flight} of them in flight" if found.in_flight else ""
    return table(columns, rows, empty=f"group {found.group} has consumed nothing yet") + (
        f"{counted(found.lag, 'message')} behind{in_flight}, {found.consume_tps:.2f} consumed a second\n"
    )


@command(app, "mode")
def mode(
    site: Site,
    group: Name,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="The topic.", autocompletion=completion.topics)
    ] = None,
    mode: Annotated[
        str | None, typer.Argument(metavar="[PULL|POP]", help="The mode from now on; without it, show the modes.")
    ] = None,
    share_queues: Annotated[
        int,
        typer.Option(
            "--share-queues",
            metavar="N",
            min=0,
            help="With POP: each member pops its queues and those of N other members; 0: all queues.",
        ),
    ] = 0,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Show or set how consumers that let brokers rebalance get messages: by pull, or by POP. For 5.x and Hanabi.

    Consumers rebalance themselves by default: rebalance="broker" in Python, setClientRebalance(false) in Java.
    """
    chosen = where(cluster, broker)
    if mode is None:
        site.show(lambda admin: admin.groups.request_modes(group, topic, chosen), _modes_text)
        return
    wanted = mode.upper()
    if topic is None or wanted not in ("PULL", "POP"):
        raise ConfigError(f"give a TOPIC, and PULL or POP, not {mode}")
    found = site.run(
        lambda admin: admin.groups.set_request_mode(group, topic, wanted, share_queues=share_queues, where=chosen)
    )
    site.write(found, _modes_text)


def _modes_text(found: "list[RequestMode]") -> str:
    return table(
        ("topic", "broker", "mode", "share queues"),
        [(each.topic, each.broker, each.mode, each.share_queues) for each in found],
        empty="no mode was set: the broker's defaultMessageRequestMode holds, PULL unless configured otherwise",
    )


@command(app, "members")
def members(
    site: Site,
    group: Name,
    client: Annotated[
        str | None,
        typer.Option(
            "--client", metavar="ID", help="Ask this member what it is doing.", autocompletion=completion.members
        ),
    ] = None,
    stacks: Annotated[bool, typer.Option("--stacks", help="With --client: what its threads do.")] = False,
    producers: Annotated[bool, typer.Option("--producers", help="The producers of this group.")] = False,
    watch: Watch = None,
) -> None:
    """Show the members of a group; with --client, one member's report; with --producers, its producers."""
    if producers and client is not None:
        raise ConfigError("--client asks a consumer, and not with --producers: those cannot be asked")
    if producers:
        site.show(lambda admin: admin.groups.producers(group), _members_text, watch)
    elif client is None:
        site.show(lambda admin: admin.groups.members(group), _members_text, watch)
    else:
        site.show(lambda admin: admin.groups.running_info(group, client, stacks=stacks), _running_text, watch)


def _members_text(found: "GroupMembers") -> str:
    rows = [
        (each.client_id, each.address, each.language, each.version, ",".join(each.brokers)) for each in found.members
    ]
    head = ""
    if found.members:
        about = [("model", found.message_model), ("type", found.consume_type), ("starts", found.consume_from_where)]
        head = pairs(about) + "\n"
    return head + table(
        ("client", "address", "language", "version", "brokers"), rows, empty=f"group {found.group} has no members now"
    )


def _running_text(found: "RunningInfo") -> str:
    queues = [
        (
            each.topic,
            each.broker,
            each.queue_id,
            each.group_offset,
            each.cached,
            each.locked,
            moment(each.last_consumed),
        )
        for each in found.queues
    ]
    speeds = [
        (each.topic, each.ok_tps, each.failed_tps, each.consume_ms, each.pull_tps, each.pull_ms)
        for each in found.topics
    ]
    about = pairs([("client", found.client_id), *sorted(found.properties.items())])
    if found.missing:
        return f"{about}\nMissing: {found.missing}.\n"
    return "\n".join(
        (
            about,
            table(
                ("topic", "broker", "queue", "offset", "cached", "locked", "last consumed"), queues, empty="no queues"
            ),
            table(("topic", "ok/s", "failed/s", "ms", "pulls/s", "pull ms"), speeds, empty="no figures"),
            found.stacks,
        )
    )


@command(app, "subscriptions")
def subscriptions(site: Site, group: Name, watch: Watch = None) -> None:
    """Show what the members of a group subscribe to, and whether they agree."""
    site.show(lambda admin: admin.groups.subscriptions(group), _subscriptions_text, watch)


def _subscriptions_text(found: "GroupSubscriptions") -> str:
    rows = [(each.topic, each.expression_type, each.expression, ",".join(each.brokers)) for each in found.subscriptions]
    text = table(("topic", "type", "expression", "brokers"), rows, empty=f"group {found.group} has no members now")
    if not found.consistent:
        text += "\nThe members subscribe differently: no member will consume some of the messages.\n"
        text += table(
            ("subscribes", "clients"),
            [(each.subscribes, ",".join(each.client_ids)) for each in found.opinions],
            empty="",
        )
    return text
