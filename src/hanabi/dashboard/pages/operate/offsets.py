"""Reset of a group's offsets, to a message, a time or those of another group: a preview with the difference of each
queue, then the reset itself.
"""

from starlette.responses import Response

from hanabi.admin import Target
from hanabi.admin.offsets import Reset
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.times import parse_time
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter


async def preview(visit: Visit) -> Response:
    """Show what a reset would change; without a target only the form."""
    group, topic = visit.name("group"), visit.text("topic")
    admin = visit.parts.cluster.admin
    plan, members = None, []
    if topic and visit.text("to"):
        plan = await _plan(visit, group, topic)
        members = [member.client_id for member in (await admin.groups.members(group)).members]
    progress = (await visit.parts.cluster.progress(group)).value
    topics = sorted({queue.topic for queue in progress.queues}) if progress else []
    return _page(visit, plan, members, topics, done=False)


async def reset(visit: Visit) -> Response:
    """Reset, if the name of the group was typed; show the result of each queue."""
    group, topic = visit.name("group"), visit.text("topic")
    if visit.text("confirm") != group:
        raise InvalidParameter(f"type the name of the group, {group}, to reset it")
    offsets = visit.parts.cluster.admin.offsets
    if visit.text("to") == "group":
        moved = await offsets.clone(_source(visit), group, topic)
        result = Reset(group=group, topic=topic, online=False, moves=moved)
    else:
        result = await offsets.reset(group, topic, _target(visit))
    moves = "; ".join(f"{move.broker} {move.queue_id}: {move.old_offset}→{move.new_offset}" for move in result.moves)
    visit.note("reset offsets", f"{group} in {topic}", moves)
    visit.parts.cluster.collector.forget("progress", group)
    return _page(visit, result, [], [topic], done=True)


async def _plan(visit: Visit, group: str, topic: str) -> Reset:
    offsets = visit.parts.cluster.admin.offsets
    if visit.text("to") == "group":
        moves = await offsets.plan_clone(_source(visit), group, topic)
        return Reset(group=group, topic=topic, online=False, moves=moves)
    return await offsets.plan(group, topic, _target(visit))


def _source(visit: Visit) -> str:
    source = visit.text("source")
    if not source:
        raise InvalidParameter("say the group whose offsets are copied")
    return source


def _page(visit: Visit, plan: Reset | None, members: list[str], topics: list[str], *, done: bool) -> Response:
    rows = (
        [(move, None if move.old_offset is None else move.new_offset - move.old_offset) for move in plan.moves]
        if plan
        else []
    )
    return visit.page(
        "reset.html",
        name=visit.name("group"),
        plan=plan,
        rows=rows,
        again=sum(-difference for _, difference in rows if difference is not None and difference < 0),
        skipped=sum(difference for _, difference in rows if difference is not None and difference > 0),
        members=members,
        topics=topics,
        done=done,
        fields={key: visit.text(key) for key in ("topic", "to", "time", "source")},
    )


def _target(visit: Visit) -> Target:
    to = visit.text("to")
    if to in ("first", "last"):
        return Target(first=to == "first", last=to == "last")
    time_ms = parse_time(visit.text("time"), visit.parts.now_ms())
    if to != "time" or time_ms is None:
        raise InvalidParameter("say where to: the first message, the end, or a time")
    return Target(time_ms=time_ms)


PAGES = [
    PageRoute("/groups/{group}/reset", preview, Role.OPERATOR),
    PageRoute("/groups/{group}/reset", reset, Role.OPERATOR, "POST"),
]
