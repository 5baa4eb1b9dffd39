"""`hanabi offset`: how far groups have come, and how to change that."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import Site, Watch, Yes, command, counted
from hanabi.cli.shared.render import table
from hanabi.cli.shared.times import is_number, is_plausible, parse_time, time_text
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.admin.offsets import OffsetMove, QueueOffset, Reset, Target

app = typer.Typer(help="See and change how far groups have come.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=completion.groups)]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completion.topics)]
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
        str | None,
        typer.Option(
            "--to",
            metavar="first|last|TIME",
            help="The first message, what comes from now on, or what was stored at a time (2026-11-15T06:45:00, UTC, or"
            " milliseconds).",
        ),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", metavar="N", min=0, help="This offset, in each queue or in that of --queue."),
    ] = None,
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="N", min=0, help="Only this queue, of each broker.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Set a group back or forward in a topic.

    Members that are online are told, and go on from there within seconds. Single queues and offsets can be set while
    no member is online. A reset that was interrupted can be given again.
    """
    target = _target(to, to_offset, queue)
    plan = site.run(lambda admin: admin.offsets.plan(group, topic, target, queue))
    if not dry_run:
        site.confirm(
            f"Set group {group} to {_place(to, target)} in {counted(len(plan.moves), 'queue')} of topic {topic}?", yes
        )
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
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The group that has the offsets.", autocompletion=completion.groups)
    ],
    destination: Annotated[
        str, typer.Argument(metavar="TO", help="The group that gets them.", autocompletion=completion.groups)
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Only in this topic.", autocompletion=completion.topics)
    ] = None,
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


def _place(to: str | None, target: "Target") -> str:
    if target.time_ms is not None:
        return time_text(target.time_ms)
    return f"offset {target.offset}" if target.offset is not None else str(to)


def _target(text: str | None, offset: int | None, queue: int | None) -> "Target":
    from hanabi.admin import Target

    if (text is None) == (offset is None):
        raise ConfigError("say where to, once: --to first, --to last, --to TIME or --to-offset N")
    if text is None:
        return Target(offset=offset)
    if text in (FIRST, LAST):
        return Target(first=text == FIRST, last=text == LAST)
    number = int(text) if is_number(text) else None
    if number is not None and queue is not None and not is_plausible(number):  # as it was written before --to-offset
        return Target(offset=number)
    try:
        return Target(time_ms=parse_time("--to", text))
    except ConfigError as error:
        others = f"--to {FIRST}, --to {LAST}" if number is None else f"--to-offset {number} if you mean an offset"
        raise ConfigError(f"{error}; or {others}") from error
