"""The overview: brokers with their rates and disks, and what the doctor finds."""

import asyncio

from starlette.responses import Response

from hanabi.dashboard.pages.history import curves_of, overview_curves
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit


async def overview(visit: Visit) -> Response:
    """Show the cluster at a glance."""
    cluster = visit.parts.cluster
    (rows, known), topics, groups, diagnosis = await asyncio.gather(
        cluster.brokers(), cluster.topic_names(), cluster.group_configs(), cluster.diagnosis()
    )
    names = {name for _, table in groups.value.found for name in table} if groups.value else None
    return visit.page(
        "overview.html",
        rows=rows,
        brokers=known,
        topics=len(topics.value) if topics.value is not None else None,
        groups=len(names) if names is not None else None,
        diagnosis=diagnosis,
        shown=[] if visit.wants_part else await curves_of(visit, overview_curves()),
    )


async def keys(visit: Visit) -> Response:
    """Show the keys."""
    return visit.page("help.html")


PAGES = [PageRoute("/", overview), PageRoute("/help", keys)]
