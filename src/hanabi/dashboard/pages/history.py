"""Curves of the overview, of topics and of groups: with their page, and as JSON that the page asks for again."""

from typing import Final

import msgspec
from starlette.responses import Response

from hanabi.dashboard.history import series
from hanabi.dashboard.history.curves import DEFAULT_SPAN, Curve, Line, Shown, shown
from hanabi.dashboard.history.tiers import SPANS
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter

BROKERS_SHOWN_MAX: Final = 8


def overview_curves() -> list[Curve]:
    """Return the curves of the whole cluster."""
    return [
        Curve(
            title="Messages a second",
            unit="rate",
            lines=[Line(series=series.CLUSTER_IN, label="In/s"), Line(series=series.CLUSTER_OUT, label="Out/s")],
        ),
        Curve(title="Lag of all groups", unit="count", lines=[Line(series=series.CLUSTER_LAG, label="Lag")]),
    ]


def topic_curves(topic: str) -> list[Curve]:
    """Return the curves of a topic."""
    line = Line(series=series.topic_series(topic), label="In/s")
    return [Curve(title="Messages a second", unit="rate", lines=[line])]


def group_curves(group: str) -> list[Curve]:
    """Return the curves of a group."""
    lag, behind = (series.group_series(group, figure) for figure in ("lag", "behind"))
    return [
        Curve(title="Lag", unit="count", lines=[Line(series=lag, label="Lag")]),
        Curve(title="Behind", unit="seconds", lines=[Line(series=behind, label="Behind")]),
    ]


def broker_curves(address: str) -> list[Curve]:
    """Return the curves of a broker."""
    into, out, disk = (series.broker_series(address, figure) for figure in ("in", "out", "disk"))
    rates = [Line(series=into, label="In/s"), Line(series=out, label="Out/s")]
    return [
        Curve(title="Messages a second", unit="rate", lines=rates),
        Curve(title="Disk", unit="ratio", lines=[Line(series=disk, label="Disk")]),
    ]


async def curves_of(visit: Visit, curves: list[Curve]) -> list[Shown]:
    """Return curves with their values, for the span that the URL names."""
    if visit.is_account and not await _may_see(visit, curves):
        return []
    now_s = visit.parts.now_ms() / 1000
    span = visit.text("span", DEFAULT_SPAN)
    return [await shown(visit.parts.ring, curve, span, now_s) for curve in curves]


async def _may_see(visit: Visit, curves: list[Curve]) -> bool:
    """Return whether an account of the brokers may read what these curves show: brokers tell it the same by itself."""
    kind, _, rest = curves[0].lines[0].series.partition("/")
    name, cluster = rest.rpartition("/")[0], visit.parts.cluster
    if kind == "topic":
        queues = (await cluster.topic_queues(name)).value
        return queues is not None and bool(queues.found)
    if kind == "group":
        progress = (await cluster.progress(name)).value
        return progress is not None and progress.lag is not None
    rows, known = await cluster.brokers()
    return known.value is not None and any(row.silent_since_ms is None for row in rows)


async def values(visit: Visit) -> Response:
    """Answer with the values of one curve as JSON: times and lines, null for a gap."""
    kind, name, number = visit.text("of", "overview"), visit.text("name"), visit.number("n", 0, 0, 9)
    if visit.text("span", DEFAULT_SPAN) not in SPANS:
        raise InvalidParameter(f"span must be one of {', '.join(SPANS)}")
    curves = _curves(kind, name)
    if number >= len(curves):
        raise InvalidParameter("there is no such curve")
    found = next(iter(await curves_of(visit, [curves[number]])), None)
    if found is None:
        return Response("[]", 403, media_type="application/json")
    body = msgspec.json.encode([found.times, *found.values])
    return Response(body, media_type="application/json")


def _curves(kind: str, name: str) -> list[Curve]:
    if kind == "overview":
        return overview_curves()
    makers = {"topic": topic_curves, "group": group_curves, "broker": broker_curves}
    if kind not in makers or not name:
        raise InvalidParameter("a curve is of the overview, a topic, a group or a broker")
    return makers[kind](name)


PAGES = [PageRoute("/history", values)]
