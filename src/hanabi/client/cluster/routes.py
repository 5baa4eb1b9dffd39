"""Routes: the brokers and queues of each topic that this client uses.

A route is an immutable value, replaced when the name servers report a change. Routes are queried on first use,
refreshed every 30 s, and at once when a caller found one stale. A route that lost a broker, a master or a slave, is
refreshed sooner, and also after a connection to one of its brokers ended: restarting brokers are gone for a moment. If
name servers are down, the known routes stay in use.

Agrees with MQClientInstance.updateTopicRouteInfoFromNameServer, topicRouteData2TopicPublishInfo,
topicRouteData2TopicSubscribeInfo and findBrokerAddressInSubscribe. Independent of producers and consumers.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from hanabi.client.cluster.name_servers import NameServers
from hanabi.client.for_each import for_each
from hanabi.errors import ConnectError, MQError, TopicNotExist, TransportError
from hanabi.message import MessageQueue
from hanabi.wire.bodies.route import TopicRoute
from hanabi.wire.system_names import DEFAULT_TOPIC

MASTER_ID: Final = 0
DEFAULT_TOPIC_QUEUES: Final = 4
PERM_WRITE: Final = 2
PERM_READ: Final = 4
DEFAULT_ROUTE_SECONDS: Final = 1.0  # a missing topic is not queried again within this time
SOON_SECONDS: Final = 1.0  # after a route has lost a broker; doubles each time
# refreshes in a row without the topic, before it counts as gone: a restarting broker is missing too
DENIALS_MAX: Final = 4

logger = logging.getLogger(__name__)


class Route(msgspec.Struct, frozen=True, eq=False):
    """Brokers and queues of one topic. Addresses are those to connect to, after the address map.

    `is_default` says that the topic does not exist yet: these are the brokers that would create it.
    """

    topic: str
    brokers: Mapping[str, Mapping[int, str]]  # name -> id -> address
    write_queues: list[MessageQueue]
    read_queues: list[MessageQueue]
    source: TopicRoute
    is_default: bool = False
    is_ordered: bool = False  # the name server fixes the queues, including those of brokers that are down

    def master_of(self, broker_name: str) -> str | None:
        """Return the address for writes to this broker name."""
        return self.brokers.get(broker_name, {}).get(MASTER_ID)

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
        """Return the address for reads: this broker, or another one of the same name as fallback."""
        return address_of(self.brokers.get(broker_name, {}), broker_id, only_this=only_this)

    def cluster_of(self, broker_name: str) -> str | None:
        """Return the cluster of this broker."""
        return next((data.cluster for data in self.source.broker_datas if data.broker_name == broker_name), None)

    @property
    def places(self) -> "frozenset[Place]":
        """Return the name and id of each broker."""
        return frozenset((name, number) for name, addresses in self.brokers.items() for number in addresses)

    def any_address(self, choose: Callable[[list[str]], str]) -> str | None:
        """Return any broker of the topic, masters before slaves: for queries that each can answer."""
        names = [name for name, addresses in self.brokers.items() if addresses]
        return self.address_of(choose(names)) if names else None


def address_of(addresses: Mapping[int, str], broker_id: int, *, only_this: bool = False) -> str | None:
    """Return the address of *broker_id*; if it is missing, of the next slave, then of any broker, the master first."""
    found = addresses.get(broker_id)
    if found is None and broker_id != MASTER_ID:
        found = addresses.get(broker_id + 1)
    if found is None and not only_this and addresses:
        found = addresses[min(addresses)]
    return found


def make_route(topic: str, source: TopicRoute, mapped: Callable[[str], str], *, is_default: bool = False) -> Route:
    """Build the route that *source* describes. Pure."""
    brokers = {
        broker.broker_name: {number: mapped(address) for number, address in sorted(broker.broker_addrs.items())}
        for broker in source.broker_datas
    }
    queues = sorted(source.queue_datas, key=lambda queue: queue.broker_name)
    if source.order_topic_conf:
        writable = [
            MessageQueue(topic, name, queue_id)
            for name, count in _ordered(source.order_topic_conf)
            for queue_id in range(count)
        ]
    else:
        writable = [
            MessageQueue(topic, queue.broker_name, queue_id)
            for queue in queues
            if queue.perm & PERM_WRITE and MASTER_ID in brokers.get(queue.broker_name, {})
            for queue_id in range(queue.write_queue_nums)
        ]
    readable = [
        MessageQueue(topic, queue.broker_name, queue_id)
        for queue in queues
        if queue.perm & PERM_READ
        for queue_id in range(queue.read_queue_nums)
    ]
    return Route(topic, brokers, writable, readable, source, is_default, bool(source.order_topic_conf))


def _ordered(text: str) -> list[tuple[str, int]]:
    """Parse "broker-a:4;broker-b:2" into pairs; skip invalid parts."""
    pairs = (part.rpartition(":") for part in text.split(";"))
    return [(name, int(count)) for name, _, count in pairs if name and count.isdigit()]


def in_order(source: TopicRoute) -> TopicRoute:
    """Sort the route: name servers return it in random order, which is no change."""
    return msgspec.structs.replace(
        source,
        broker_datas=sorted(source.broker_datas, key=lambda broker: broker.broker_name),
        queue_datas=sorted(source.queue_datas, key=lambda queue: queue.broker_name),
    )


def for_new_topic(source: TopicRoute, queues_max: int) -> TopicRoute:
    """Return the default topic's route, with as many queues as a topic created from it will have."""
    cut = [
        msgspec.structs.replace(
            queue,
            read_queue_nums=(count := min(queues_max, queue.read_queue_nums)),
            write_queue_nums=count,
        )
        for queue in source.queue_datas
    ]
    return msgspec.structs.replace(source, queue_datas=cut)


Place: TypeAlias = tuple[str, int]  # name and id of a broker


class _Lost(NamedTuple):
    """Brokers that a topic lost, and the number of queries since."""

    places: frozenset[Place]
    times: int = 0


class Routes:
    """All routes of one client. Invariant: concurrent queries for one topic coalesce.

    `on_change` is called with each new or changed route, and with (topic, None) when a topic is gone.
    """

    def __init__(self, name_servers: NameServers, *, mapped: Callable[[str], str], request_timeout_s: float) -> None:
        self._name_servers = name_servers
        self._mapped = mapped
        self._seconds = request_timeout_s
        self._routes: dict[str, Route] = {}
        self._denials: dict[str, int] = {}
        self._defaults: dict[str, tuple[float, Route]] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}
        self._lost: dict[str, _Lost] = {}  # topics that had more brokers recently
        self._has_lost = asyncio.Event()
        self.on_change: list[Callable[[str, Route | None], None]] = []
        self.known: Callable[[str], Route | None] = self._routes.get  # without waiting; None: call `find`

    @property
    def topics(self) -> list[str]:
        """Return the topics whose routes are refreshed."""
        return list(self._routes)

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """Return all brokers of all routes, including those that would create a topic: name -> id -> address."""
        found: dict[str, dict[int, str]] = {}
        for route in (*self._routes.values(), *(route for _, route in self._defaults.values())):
            for name, addresses in route.brokers.items():
                found.setdefault(name, {}).update(addresses)
        return found

    def master_of(self, broker_name: str) -> str | None:
        """Return the address for writes to this broker name, from any route."""
        return self.address_of(broker_name, MASTER_ID, only_this=True)

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
        """Return an address as `Route.address_of`, from any route with the broker."""
        return address_of(self.brokers.get(broker_name, {}), broker_id, only_this=only_this)

    async def find(
        self,
        topic: str,
        *,
        allow_default: bool = False,
        fresh: bool = False,
        default_topic: str = DEFAULT_TOPIC,
        default_queues: int = DEFAULT_TOPIC_QUEUES,
    ) -> Route:
        """Return the route of *topic*. With *fresh*, query the name servers, and use the known route only if none
        answers.

        Raise TopicNotExist for a topic without brokers; with *allow_default*, return the brokers that would create it,
        if any.
        """
        known = self._routes.get(topic)
        if known is not None and not fresh:
            return known
        if allow_default and not fresh and (default := self._fresh_default(topic)) is not None:
            return default
        try:
            return await self._ask_once(topic)
        except TopicNotExist as missing:
            if not allow_default:
                raise await self._better(topic, missing) from None
            return await self._find_default(topic, missing, default_topic, default_queues)
        except MQError as error:
            if known is None:
                raise
            logger.warning("keeping the known route of topic %s: %s", topic, error)
            return known

    def _fresh_default(self, topic: str) -> Route | None:
        found = self._defaults.get(topic)
        if found is None:
            return None
        until, route = found
        return route if asyncio.get_running_loop().time() < until else None

    async def _find_default(self, topic: str, missing: TopicNotExist, default_topic: str, queues_max: int) -> Route:
        try:
            source = await self._name_servers.route_of(default_topic, self._seconds)
        except TopicNotExist:
            raise await self._better(
                topic,
                TopicNotExist(
                    f"{missing}. No broker creates it automatically either: none has the default topic {default_topic}"
                    " (autoCreateTopicEnable)"
                ),
            ) from missing
        made = make_route(topic, for_new_topic(source, queues_max), self._mapped, is_default=True)
        self._defaults[topic] = (asyncio.get_running_loop().time() + DEFAULT_ROUTE_SECONDS, made)
        self._notify(topic, made)
        return made

    async def _better(self, topic: str, missing: TopicNotExist) -> TopicNotExist:
        """Return *missing*, or its cause if there is no broker at all: then none could create the topic."""
        if not await self._name_servers.have_no_brokers(self._seconds):
            return missing
        addresses = self._name_servers.addresses
        noun = "name server" if len(addresses) == 1 else "name servers"
        return TopicNotExist(
            f"topic {topic}: no broker is registered with the {noun} {', '.join(addresses)}: is one running, and"
            " was it told this address (namesrvAddr)?"
        )

    async def _ask_once(self, topic: str) -> Route:
        task = self._asking.get(topic)
        if task is None:
            task = asyncio.ensure_future(self._ask(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda done: self._asked(topic, done))
        await asyncio.wait((task,))  # a cancelled caller does not stop it for the remaining ones
        if task.cancelled():
            raise ConnectError(f"the route of topic {topic} is no longer queried: this client is shut down")
        return task.result()

    def _asked(self, topic: str, task: asyncio.Task[Route]) -> None:
        self._asking.pop(topic, None)
        if not task.cancelled():
            task.exception()  # mark as retrieved, in case all callers have given up

    async def _ask(self, topic: str) -> Route:
        source = await self._name_servers.route_of(topic, self._seconds)
        return self._take(topic, source)

    def _take(self, topic: str, source: TopicRoute) -> Route:
        self._denials.pop(topic, None)
        self._defaults.pop(topic, None)
        source = in_order(source)
        old = self._routes.get(topic)
        if old is not None and old.source == source:
            if (lost := self._lost.get(topic)) is not None and lost.places <= old.places:
                del self._lost[topic]  # none is lost: only a connection was
            return old
        route = make_route(topic, source, self._mapped)
        self._routes[topic] = route
        if old is not None:
            logger.info("the route of topic %s changed: %s", topic, describe(route))
            self._look_for_lost(topic, old, route)
        self._notify(topic, route)
        return route

    def _look_for_lost(self, topic: str, old: Route, new: Route) -> None:
        before = self._lost.pop(topic, None)
        self._miss(topic, (old.places | (before.places if before else frozenset())) - new.places)

    def broker_lost(self, broker_name: str) -> None:
        """Refresh the routes with this broker soon: a connection to it ended."""
        for topic, route in self._routes.items():
            if topic not in self._lost:
                self._miss(topic, frozenset((broker_name, number) for number in route.brokers.get(broker_name, ())))

    def _miss(self, topic: str, places: frozenset[Place]) -> None:
        if places:
            self._lost[topic] = _Lost(places)
            self._has_lost.set()

    async def keep_fresh(self, seconds: float) -> None:
        """Refresh every topic at this interval, and sooner those that lost a broker; until cancelled."""
        loop = asyncio.get_running_loop()
        all_due = loop.time() + seconds
        while True:
            soon_due = loop.time() + min(
                (SOON_SECONDS * 2.0**lost.times for lost in self._lost.values()), default=seconds
            )
            self._has_lost.clear()
            try:
                async with asyncio.timeout_at(min(all_due, soon_due)):
                    await self._has_lost.wait()
            except TimeoutError:
                try:
                    if all_due <= soon_due:
                        all_due = loop.time() + seconds
                        await self.refresh()
                    else:
                        await self._ask_for_lost(seconds)
                except Exception:
                    logger.exception("refreshing routes failed with an internal error")

    async def _ask_for_lost(self, seconds: float) -> None:
        lost_ones = list(self._lost.items())
        for topic, lost in lost_ones:
            if SOON_SECONDS * 2.0 ** (lost.times + 1) < seconds:
                self._lost[topic] = lost._replace(times=lost.times + 1)
            else:
                del self._lost[topic]  # it does not come back soon: the regular refresh will find it
        await for_each(self._ask_quietly, [topic for topic, _ in lost_ones])

    async def _ask_quietly(self, topic: str) -> None:
        with contextlib.suppress(MQError):  # the regular refresh reports it
            await self._ask_once(topic)

    def _notify(self, topic: str, route: Route | None) -> None:
        for callback in self.on_change:
            callback(topic, route)

    async def refresh(self) -> None:
        """Refresh every topic. A route that cannot be queried, or was denied only occasionally, stays."""
        for topic in (*self._routes, *self._defaults):
            try:
                await self._ask_once(topic)
            except TopicNotExist as error:
                self._denied(topic, error)
            except MQError as error:
                logger.warning("keeping the known route of topic %s: %s", topic, error)
                if isinstance(error, TransportError):
                    return  # the name servers would not answer for the remaining topics either

    def _denied(self, topic: str, error: TopicNotExist) -> None:
        if topic not in self._routes:
            return  # it is not created yet
        denials = self._denials[topic] = self._denials.get(topic, 0) + 1
        if denials < DENIALS_MAX:
            return
        logger.warning("topic %s is gone: %s", topic, error)
        del self._denials[topic]
        del self._routes[topic]
        self._lost.pop(topic, None)
        self._notify(topic, None)

    async def close(self) -> None:
        """Cancel all queries."""
        if asking := list(self._asking.values()):
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)


def describe(route: Route) -> str:
    """Describe a route in one line for people: "broker-a (10.0.0.1:10911) 4 write 4 read; ..."."""
    return "; ".join(
        f"{name} ({', '.join(addresses.values())})"
        f" {sum(queue.broker_name == name for queue in route.write_queues)} write"
        f" {sum(queue.broker_name == name for queue in route.read_queues)} read"
        for name, addresses in sorted(route.brokers.items())
    )
