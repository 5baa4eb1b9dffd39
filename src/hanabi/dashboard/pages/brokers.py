"""Brokers: the list, one broker with its figures and settings, replication, and producers."""

import asyncio
from typing import Final

from starlette.responses import Response

from hanabi.admin import Where
from hanabi.admin.brokers import BrokerTable
from hanabi.admin.controllers import ControllerState
from hanabi.admin.groups import GroupMembers
from hanabi.dashboard.pages.history import broker_curves, curves_of
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter

SECRETS: Final = ("password", "secret", "credential", "accesskey")


async def listing(visit: Visit) -> Response:
    """Show all brokers."""
    rows, known = await visit.parts.cluster.brokers()
    return visit.page("brokers.html", rows=rows, brokers=known)


async def broker(visit: Visit) -> Response:
    """Show figures and settings of one broker. Its address must be one that the name servers list."""
    address, cluster = visit.name("address"), visit.parts.cluster
    rows, _ = await cluster.brokers()
    row = next((row for row in rows if row.summary.address == address), None)
    if row is None:
        raise InvalidParameter(f"{address} is not a broker of this cluster")
    where = Where(broker=address)

    async def status() -> list[BrokerTable]:
        return await cluster.admin.brokers.status(where)

    async def config() -> list[BrokerTable]:
        return await cluster.admin.brokers.config(where)

    figures, settings = await asyncio.gather(
        cluster.collector.ask(("status", address), status), cluster.collector.ask(("config", address), config)
    )
    table = settings.value[0].values if settings.value else {}
    search = visit.text("q").lower()
    return visit.page(
        "broker.html",
        row=row,
        figures=figures,
        settings=settings,
        config={key: _hidden(key, value) for key, value in table.items() if search in key.lower()},
        q=visit.text("q"),
        shown=[] if visit.wants_part else await curves_of(visit, broker_curves(address)),
    )


def _hidden(key: str, value: str) -> str:
    """Return the value of a setting, or stars for a secret."""
    return "••••" if value and any(word in key.lower() for word in SECRETS) else value


async def replication(visit: Visit) -> Response:
    """Show masters, their slaves, and how far these are behind."""
    return visit.page("replication.html", known=await visit.parts.cluster.replication())


async def controllers(visit: Visit) -> Response:
    """Show controllers and the replicas that they know. Brokers in controller mode name them."""
    cluster = visit.parts.cluster
    configs = await cluster.collector.ask(("all-configs",), cluster.admin.brokers.config, fresh_s=300.0)
    addresses = controller_addresses([table.values for table in configs.value or ()])
    known = None
    if addresses:

        async def ask() -> ControllerState:
            return await cluster.admin.controllers.status(addresses)

        known = await cluster.collector.ask(("controllers",), ask)
    return visit.page("controllers.html", addresses=addresses, known=known)


def controller_addresses(settings: list[dict[str, str]]) -> list[str]:
    """Return the controllers that brokers in controller mode name. Pure."""
    found = [
        address.strip()
        for values in settings
        if values.get("enableControllerMode", "").lower() == "true"
        for address in values.get("controllerAddr", "").split(";")
    ]
    return list(dict.fromkeys(address for address in found if address))


async def producers(visit: Visit) -> Response:
    """Show the connected producers of a group: brokers tell them by group only."""
    group, cluster = visit.text("group"), visit.parts.cluster
    known = None
    if group:

        async def ask() -> GroupMembers:
            return await cluster.admin.groups.producers(group)

        known = await cluster.collector.ask(("producers", group), ask)
    return visit.page("producers.html", group=group, known=known)


PAGES = [
    PageRoute("/brokers", listing),
    PageRoute("/brokers/{address}", broker),
    PageRoute("/replication", replication),
    PageRoute("/controllers", controllers),
    PageRoute("/producers", producers),
]
