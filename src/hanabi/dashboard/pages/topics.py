"""Topics: the list, and one topic with its queues, groups and settings."""

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response

from hanabi.admin.topics import QueueStatus, kind_of
from hanabi.dashboard.cluster.collector import Known
from hanabi.dashboard.cluster.lag import behind_ms, uneven
from hanabi.dashboard.cluster.reading import Part
from hanabi.dashboard.pages.history import curves_of, topic_curves
from hanabi.dashboard.web.listing import sliced
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import TopicNotExist

KINDS: Final = ("all", "normal", "retry", "dead-letter", "system")
GROUPS_SHOWN_MAX: Final = 50


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list. Unknown values are None."""

    name: str
    kind: str
    queues: int | None = None
    messages: int | None = None
    last_stored: int | None = None
    missing: str = ""


async def listing(visit: Visit) -> Response:
    """Show topics: filtered, cut to a page, and with figures only for the lines of that page."""
    search, kind = visit.text("q"), visit.text("kind", "normal")
    known = await visit.parts.cluster.topic_names()
    system = await visit.parts.cluster.system_topics()
    names = [name for name in known.value or () if kind == "all" or kind_of(name, system) == kind]
    part = sliced(names, search, visit.number("page", 1, 1, 1_000_000))
    figures = await visit.parts.cluster.queues_of(part.names)
    rows = [_row(name, kind_of(name, system), figures[name]) for name in part.names]
    return visit.page("topics.html", rows=rows, slice=part, known=known, q=search, kind=kind, kinds=KINDS)


def _row(name: str, kind: str, known: Known[Part[list[QueueStatus]]]) -> TopicRow:
    if known.value is None:
        return TopicRow(name=name, kind=kind, missing=known.problem or "")
    missing = "; ".join((*known.value.missing.values(), *((known.problem,) if known.problem else ())))
    queues = [queue for _, found in known.value.found for queue in found]
    if not known.value.found:
        return TopicRow(name=name, kind=kind, missing=missing)
    return TopicRow(
        name=name,
        kind=kind,
        queues=len(queues),
        messages=sum(queue.messages for queue in queues),
        last_stored=max((queue.last_stored for queue in queues), default=0),
        missing=missing,
    )


async def topic(visit: Visit) -> Response:
    """Show one topic."""
    name, cluster = visit.name("topic"), visit.parts.cluster
    names, queues, groups, configs = await asyncio.gather(
        cluster.topic_names(), cluster.topic_queues(name), cluster.topic_groups(name), cluster.topic_configs()
    )
    if names.value is not None and name not in names.value:
        cluster.collector.forget("topics")
        raise TopicNotExist(f"no name server knows topic {name}")
    visit.parts.sampler.watch("topic", name)
    found = sorted({group for _, each in groups.value.found for group in each}) if groups.value else []
    shown = found[:GROUPS_SHOWN_MAX]
    progress = await cluster.progress_of(shown, name)
    rows = [queue for _, each in queues.value.found for queue in each] if queues.value else []
    return visit.page(
        "topic.html",
        name=name,
        kind=kind_of(name, await cluster.system_topics()),
        queues=queues,
        rows=list(zip(rows, uneven([queue.messages for queue in rows]), strict=True)),
        groups=[(group, progress[group], _behind(progress[group], visit.parts.now_ms())) for group in shown],
        groups_known=groups,
        groups_left_out=len(found) - len(shown),
        settings=[
            (broker, table[name]) for broker, table in (configs.value.found if configs.value else []) if name in table
        ],
        configs=configs,
        shown=[] if visit.wants_part else await curves_of(visit, topic_curves(name)),
    )


def _behind(known: Known, now_ms: int) -> int | None:  # type: ignore[type-arg]
    return behind_ms(known.value.queues, now_ms) if known.value is not None else None


PAGES = [PageRoute("/topics", listing), PageRoute("/topics/{topic}", topic)]
