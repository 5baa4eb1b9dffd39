"""The overview: brokers with their rates and disks, and what the doctor finds."""

import asyncio
from collections.abc import Callable, Iterable

from starlette.responses import Response

from hanabi.admin.groups import kind_of as group_kind
from hanabi.admin.topics import kind_of as topic_kind
from hanabi.dashboard.pages.history import curves_of, overview_curves
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit


async def overview(visit: Visit) -> Response:
    """Show the cluster at a glance."""
    cluster = visit.parts.cluster
    (rows, known), topics, groups, diagnosis = await asyncio.gather(
        cluster.brokers(), cluster.topic_names(), cluster.group_configs(), cluster.diagnosis()
    )
    system = await cluster.system_topics()
    known_groups = {name for _, table in groups.value.found for name in table} if groups.value else None
    return visit.page(
        "overview.html",
        rows=rows,
        brokers=known,
        topics=_normal(topics.value, lambda name: topic_kind(name, system)),
        groups=_normal(known_groups, group_kind),
        diagnosis=diagnosis,
        shown=[] if visit.wants_part else await curves_of(visit, overview_curves()),
    )


def _normal(names: Iterable[str] | None, kind_of: Callable[[str], str]) -> int | None:
    """Return how many names are not the brokers' own, as the lists show them; None if unknown. Pure."""
    return None if names is None else sum(kind_of(name) == "normal" for name in names)


async def keys(visit: Visit) -> Response:
    """Show the keys."""
    return visit.page("help.html")


PAGES = [PageRoute("/", overview), PageRoute("/help", keys)]
