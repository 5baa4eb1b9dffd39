"""Consumer groups: the list, and one group with members, subscriptions and lag."""

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response

from hanabi.admin.groups import GroupMembers, GroupSubscriptions, RunningInfo, kind_of
from hanabi.dashboard.cluster.collector import Known
from hanabi.dashboard.cluster.lag import behind_ms, drain, worst_queue
from hanabi.dashboard.cluster.reading import Progress
from hanabi.dashboard.pages.history import curves_of, group_curves
from hanabi.dashboard.web.listing import sliced
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import SubscriptionGroupNotExist

KINDS: Final = ("all", "normal", "system")


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list. Unknown values are None."""

    name: str
    members: int | None
    model: str | None
    lag: int | None
    behind_ms: int | None
    tps: float | None
    missing: str


async def listing(visit: Visit) -> Response:
    """Show groups, with figures only for the lines of the page."""
    search, kind = visit.text("q"), visit.text("kind", "normal")
    cluster = visit.parts.cluster
    known = await cluster.group_configs()
    names = sorted({name for _, table in known.value.found for name in table}) if known.value else []
    names = [name for name in names if kind == "all" or kind_of(name) == kind]
    part = sliced(names, search, visit.number("page", 1, 1, 1_000_000))
    progress, members = await asyncio.gather(cluster.progress_of(part.names), cluster.members_of(part.names))
    now = visit.parts.now_ms()
    rows = [_row(name, progress[name], members[name], now) for name in part.names]
    return visit.page("groups.html", rows=rows, slice=part, known=known, q=search, kind=kind, kinds=KINDS)


def _row(name: str, progress: Known[Progress], members: Known[GroupMembers | None], now_ms: int) -> GroupRow:
    found, online = progress.value, members.value
    missing = [*(found.missing.values() if found else ()), progress.problem or "", members.problem or ""]
    return GroupRow(
        name=name,
        members=len(online.members) if online is not None else None,
        model=online.message_model if online is not None else None,
        lag=found.lag if found else None,
        behind_ms=behind_ms(found.queues, now_ms) if found and found.lag is not None else None,
        tps=found.consume_tps if found else None,
        missing="; ".join(dict.fromkeys(reason for reason in missing if reason)),
    )


async def group(visit: Visit) -> Response:
    """Show one group."""
    name, cluster = visit.name("group"), visit.parts.cluster
    configs = await cluster.group_configs()
    settings = [(at, table[name]) for at, table in configs.value.found if name in table] if configs.value else []
    if configs.value is not None and configs.value.complete and not settings:
        cluster.collector.forget("group-configs")
        raise SubscriptionGroupNotExist(f"no broker knows group {name}")
    visit.parts.sampler.watch("group", name)
    progress, members, subscriptions = await asyncio.gather(
        cluster.progress(name), cluster.members(name), _subscriptions(visit, name)
    )
    found = progress.value
    return visit.page(
        "group.html",
        name=name,
        kind=kind_of(name),
        settings=settings,
        progress=progress,
        behind=behind_ms(found.queues, visit.parts.now_ms()) if found and found.lag is not None else None,
        drain=drain(cluster.observations(name)),
        worst=worst_queue(found.queues) if found else None,
        members=members,
        subscriptions=subscriptions,
        topics=sorted({queue.topic for queue in found.queues}) if found else [],
        shown=[] if visit.wants_part else await curves_of(visit, group_curves(name)),
    )


async def _subscriptions(visit: Visit, name: str) -> Known[GroupSubscriptions]:
    cluster = visit.parts.cluster
    return await cluster.collector.ask(("subscriptions", name), lambda: cluster.admin.groups.subscriptions(name))


async def client(visit: Visit) -> Response:
    """Show the state of one member, with the stacks of its threads."""
    name, member = visit.name("group"), visit.text("id")
    cluster = visit.parts.cluster

    async def ask() -> RunningInfo:
        return await cluster.admin.groups.running_info(name, member, stacks=True)

    known = await cluster.collector.ask(("client", name, member), ask)
    return visit.page("client.html", name=name, member=member, known=known)


PAGES = [
    PageRoute("/groups", listing),
    PageRoute("/groups/{group}", group),
    PageRoute("/groups/{group}/client", client),
]
