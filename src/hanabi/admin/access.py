"""Requests of an administrator: to each name server, and to the brokers of all clusters, of one, or to one broker.

Built on the client's `Core`; chooses the servers, not the requests. Agrees with Java's CommandUtil about "a cluster's
brokers": the masters that the name server lists under its name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from hanabi.admin.answer import Answer
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.routes import MASTER_ID, Route
from hanabi.errors import ConfigError, ConnectError, MQError, TransportError
from hanabi.wire.bodies.route import ClusterInfo
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body
from hanabi.wire.header import Header

AT_ONCE: Final = 8  # concurrent requests: an administrator must not crowd out other clients
SUCCESS: Final = frozenset({int(ResponseCode.SUCCESS)})

T = TypeVar("T")
Item = TypeVar("Item")


class BrokerAt(Answer, frozen=True, kw_only=True, order=True):
    """One broker, and its address. The master has id 0."""

    cluster: str
    broker: str
    broker_id: int
    address: str


class Where(Answer, frozen=True, kw_only=True):
    """Choice of brokers: those of a cluster, one by its name or its address, or all."""

    cluster: str | None = None
    broker: str | None = None

    def has(self, found: BrokerAt) -> bool:
        if self.cluster is not None and found.cluster != self.cluster:
            return False
        return self.broker is None or self.broker in (found.broker, found.address)


EVERYWHERE: Final = Where()


class Access:
    """Requests to the servers of one `Core`."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.api = core.api
        self.seconds = core.config.request_timeout_s
        self.without_master: set[str] = set()  # broker names left out of answers that only masters give

    # Name servers

    @property
    def name_servers(self) -> tuple[str, ...]:
        return self.core.config.namesrv_addresses

    async def ask_name_server(
        self, code: int, header: Header | None = None, *, accept: frozenset[int] = SUCCESS
    ) -> Command:
        """Return the response of the first name server that can be reached: all have the same data."""
        reasons: list[str] = []
        for address in self.name_servers:
            try:
                return await self.api.ask(address, code, header, timeout=self.seconds, accept=accept)
            except TransportError as error:
                reasons.append(str(error))
        raise ConnectError(f"no name server can be reached (-n, --namesrv): {'; '.join(reasons)}")

    async def ask_all_name_servers(
        self, code: int, header: Header | None = None, body: bytes = b"", *, accept: frozenset[int] = SUCCESS
    ) -> dict[str, Command]:
        """Send the same request to every name server: they do not replicate."""

        async def tell(address: str) -> tuple[str, Command]:
            return address, await self.api.ask(address, code, header, body, timeout=self.seconds, accept=accept)

        return dict(await each(self.name_servers, tell))

    # Brokers

    async def brokers(self, where: Where = EVERYWHERE) -> list[BrokerAt]:
        """Return all chosen brokers, masters and slaves; raise if there are none."""
        reply = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        info = decode_body(reply.body, ClusterInfo)
        mapped = self.core.config.mapped
        known = sorted(
            BrokerAt(cluster=data.cluster, broker=data.broker_name, broker_id=number, address=mapped(address))
            for data in info.broker_addr_table.values()
            for number, address in data.broker_addrs.items()
        )
        for broker in known:
            self.api.broker_names[broker.address] = broker.broker
        found = [broker for broker in known if where.has(broker)]
        if not found:
            raise _nothing(where, known, self.name_servers)
        return found

    async def masters(self, where: Where = EVERYWHERE) -> list[BrokerAt]:
        """Return the chosen masters, which accept changes."""
        found = await self.brokers(where)
        masters = [broker for broker in found if broker.broker_id == MASTER_ID]
        self._note_missing({broker.broker for broker in found}, masters)
        return masters

    def _note_missing(self, names: Collection[str], masters: Collection[BrokerAt]) -> None:
        """Record the broker *names* without a master; raise if no master is left."""
        missing = set(names) - {broker.broker for broker in masters}
        if missing and not masters:
            raise ConnectError(
                f"{', '.join(sorted(missing))} has no master now, only slaves: they accept no changes, and only a"
                " master knows the current state"
            )
        self.without_master |= missing

    async def masters_of_one_cluster(self, where: Where) -> list[BrokerAt]:
        """Return the chosen masters of one cluster, for creating something: it must not land in all clusters by
        accident.
        """
        masters = await self.masters(where)
        clusters = sorted({broker.cluster for broker in masters})
        if where == EVERYWHERE and len(clusters) > 1:
            raise ConfigError(
                f"there are several clusters ({', '.join(clusters)}): say which, with --cluster or --broker"
            )
        return masters

    async def route(self, topic: str) -> Route:
        """Return the current route of *topic*."""
        return await self.core.routes.find(topic, fresh=True)

    async def topic_masters(self, topic: str) -> list[BrokerAt]:
        """Return the masters that serve *topic*; raise TopicNotExist if it has no broker."""
        readers = await self.topic_readers(topic)
        masters = [broker for broker in readers if broker.broker_id == MASTER_ID]
        self._note_missing({broker.broker for broker in readers}, masters)
        return masters

    async def topic_readers(self, topic: str) -> list[BrokerAt]:
        """Return a broker of each name that serves *topic*, for reading messages: the master, or else a slave."""
        route = await self.route(topic)
        return [
            BrokerAt(
                cluster=route.cluster_of(name) or "", broker=name, broker_id=(number := min(ids)), address=ids[number]
            )
            for name, ids in sorted(route.brokers.items())
            if ids
        ]

    async def ask(
        self,
        broker: BrokerAt,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        accept: frozenset[int] = SUCCESS,
        seconds: float | None = None,
    ) -> Command:
        """Send a request to one broker."""
        return await self.api.ask(broker.address, code, header, body, timeout=seconds or self.seconds, accept=accept)

    async def ask_for(
        self, broker: BrokerAt, code: int, kind: type[T], header: Header | Mapping[str, str] | None = None
    ) -> T:
        """Send a request to one broker; return the body of its response."""
        return decode_body((await self.ask(broker, code, header)).body, kind)


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[T]]) -> list[T]:
    """Run *work* for each item, a few at a time; return the results in order. The first error cancels the rest."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> T:
        async with gate:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _nothing(where: Where, known: list[BrokerAt], name_servers: tuple[str, ...]) -> MQError:
    asked = ", ".join(name_servers)
    if not known:
        return ConnectError(f"no broker is registered with {asked}: is one running, with these name servers?")
    brokers = ", ".join(sorted({broker.broker for broker in known}))
    clusters = ", ".join(sorted({broker.cluster for broker in known}))
    wanted = " and ".join(
        f"{word} {name}" for word, name in (("cluster", where.cluster), ("broker", where.broker)) if name is not None
    )
    return ConfigError(f"{asked} knows no {wanted}; brokers are {brokers}, clusters {clusters}")
