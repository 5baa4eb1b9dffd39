"""`hanabi offset`: how far groups have come, and how to change that."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.administration import Site, Watch, Yes, command, counted
from hanabi.cli.render import table
from hanabi.cli.times import parse_time
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin.offsets import OffsetMove, QueueOffset, Reset, Target

app = typer.Typer(help="See and change how far groups have come.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
FIRST, LAST = "first", "last"


@app.callback()
def _offset() -> None:
    pass


@command(app, "show")
def show(site: Site, group: Group, topic: Topic, watch: Watch = None) -> None:
    """Show where each queue of a topic begins and ends, and how far a group has come in it."""
    site.show(lambda admin: admin.offsets.show(group, topic), _show_text, watch)


def _show_text(found: "list[QueueOffset]") -> str:
    rows = [
        (each.broker, each.queue_id, each.min_offset, each.group_offset, each.max_offset, each.lag) for each in found
    ]
    return table(("broker", "queue", "first", "group", "next", "lag"), rows)


@command(app, "reset")
def reset(
    site: Site,
    group: Group,
    topic: Topic,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="first|last|TIME|OFFSET",
            help="The first message, what comes from now on, what was stored at a time (2026-11-15T06:45:00, UTC),"
            " or with --queue an offset.",
        ),
    ],
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Only this queue, of each broker.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Set a group back or forward in a topic.

    Members that are online are told, and go on from there within seconds. Single queues and offsets can be set while
    no member is online. A reset that was interrupted can be given again.
    """
    target = _target(to, queue)
    plan = site.run(lambda admin: admin.offsets.plan(group, topic, target, queue))
    if not dry_run:
        site.confirm(f"Set group {group} to {to} in {counted(len(plan.moves), 'queue')} of topic {topic}?", yes)
        plan = site.run(lambda admin: admin.offsets.reset(group, topic, target, queue))
    site.write(plan, _reset_text)


@command(app, "skip")
def skip(site: Site, group: Group, topic: Topic, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Leave out all that a group has not consumed of a topic: it goes on with what comes."""
    from hanabi.admin import Target

    target = Target(last=True)
    plan = site.run(lambda admin: admin.offsets.plan(group, topic, target))
    if not dry_run:
        skipped = sum(max(move.new_offset - (move.old_offset or 0), 0) for move in plan.moves)
        site.confirm(f"Let group {group} skip {counted(skipped, 'message')} of topic {topic}?", yes)
        plan = site.run(lambda admin: admin.offsets.skip(group, topic))
    site.write(plan, _reset_text)


@command(app, "clone")
def clone(
    site: Site,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The group that has the offsets.")],
    destination: Annotated[str, typer.Argument(metavar="TO", help="The group that gets them.")],
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only in this topic.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give a group the offsets of another."""
    moves = site.run(lambda admin: admin.offsets.plan_clone(source, destination, topic))
    if not dry_run:
        site.confirm(f"Give group {destination} the offsets of {source} in {counted(len(moves), 'queue')}?", yes)
        moves = site.run(lambda admin: admin.offsets.clone(source, destination, topic))
    site.write(moves, _moves_text)


def _reset_text(found: "Reset") -> str:
    told = "the members are told by their brokers" if found.online else "no member is online"
    return f"{_moves_text(found.moves)}{told}\n"


def _moves_text(found: "list[OffsetMove]") -> str:
    rows = [(each.topic, each.broker, each.queue_id, each.old_offset, each.new_offset) for each in found]
    return table(("topic", "broker", "queue", "from", "to"), rows)


def _target(text: str, queue: int | None) -> "Target":
    from hanabi.admin import Target

    if text in (FIRST, LAST):
        return Target(first=text == FIRST, last=text == LAST)
    if queue is not None and text.isascii() and text.isdigit():
        return Target(offset=int(text))
    try:
        return Target(time_ms=parse_time("--to", text))
    except ConfigError as error:
        raise ConfigError(f"{error}, or {FIRST}, or {LAST}") from error
