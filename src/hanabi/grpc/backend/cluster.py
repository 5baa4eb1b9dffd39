"""Brokers of a cluster, ours or Apache's 5.x, asked over remoting: the backend of a proxy, which keeps no state.

Routes and settings are cached for some seconds. Pops have connections of their own: a broker reads no further requests
of a connection on which very many of them are held.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from hanabi.clock import monotonic_ms, wall_ms
from hanabi.errors import BrokerError, ConnectError, MQError, TransportError
from hanabi.grpc.backend.backend import BrokerQueues, TopicFacts
from hanabi.grpc.backend.group_facts import MESSAGE_TYPE, group_facts
from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.backend.popped import deliveries
from hanabi.grpc.rules.settings import GroupFacts
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.heartbeat import HeartbeatData, ProducerData
from hanabi.wire.bodies.route import BrokerData, ClusterInfo, TopicRoute
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header, NoHeader
from hanabi.wire.headers.group import GetSubscriptionGroupConfigHeader
from hanabi.wire.headers.namesrv import GetRouteHeader
from hanabi.wire.headers.topic import GetTopicConfigHeader
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.headers.v5.pop import ChangeInvisibleTimeHeader, PopMessageHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message.stored import to_messages
from hanabi.wire.receipts import real_topic

KEPT_MS: Final = 5_000
ENTRIES_MAX: Final = 20_000  # of each cache
SECONDS: Final = 3.0
RELEASED_MS: Final = 1_000  # messages of a pop whose client is gone are visible again
DELAY_MS_MAX: Final = 2**53  # the broker knows its limit
MASTER: Final = 0

logger = logging.getLogger(__name__)


class Kept:
    """Answers by name, each for some seconds; callers at the same time share one question."""

    def __init__(self, ask: Callable[[str], Awaitable[Any]], now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._ask, self._now_ms = ask, now_ms
        self._known: dict[str, tuple[int, Any]] = {}
        self._asked: dict[str, asyncio.Task[Any]] = {}

    async def get(self, name: str) -> Any:
        """Return the answer for *name*."""
        until_ms, value = self._known.get(name, (0, None))
        if self._now_ms() < until_ms:
            return value
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._fetch(name))
            task.add_done_callback(lambda _: self._asked.pop(name, None))
        return await asyncio.shield(task)

    async def _fetch(self, name: str) -> Any:
        value = await self._ask(name)
        if len(self._known) >= ENTRIES_MAX:
            self._known.clear()
        self._known[name] = self._now_ms() + KEPT_MS, value
        return value

    async def stop(self) -> None:
        """End questions under way."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ClusterBackend:
    """The brokers that the name servers at *addresses* know."""

    def __init__(self, addresses: Sequence[str], *, tls: TlsConfig | None = None) -> None:
        self._name_servers = tuple(addresses)
        checks: dict[int, Handler] = {
            RequestCode.CHECK_TRANSACTION_STATE: Handler(CheckTransactionStateHeader, self._check)
        }
        self._connector, self._pops = Connector(checks, tls=tls), Connector(tls=tls)
        self._masters: dict[str, str] = {}  # addresses by broker name
        self._routes, self._topics, self._groups = Kept(self._route), Kept(self._topic), Kept(self._group)
        self._clusters = Kept(self._cluster)
        self._client_id = f"{socket.gethostname()}@{os.getpid()}@hanabi-proxy"
        self._producers: dict[str, dict[Peer, None]] = {}  # by topic
        self._left: set[asyncio.Task[Any]] = set()

    broker_name = ""

    async def close(self) -> None:
        """Close all connections."""
        for kept in (self._routes, self._topics, self._groups, self._clusters):
            await kept.stop()
        for task in list(self._left):
            task.cancel()
        await asyncio.gather(*self._left, return_exceptions=True)
        await self._connector.close()
        await self._pops.close()

    def now_ms(self) -> int:
        """Return the time of this machine: the brokers' clocks must agree with it, as with Apache's proxy."""
        return wall_ms()

    def delay_ms_max(self) -> int:
        """Return no limit: brokers have their own."""
        return DELAY_MS_MAX

    # Routes and settings

    def topic(self, name: str) -> Awaitable[TopicFacts | None]:
        """Return the facts about a topic."""
        return self._topics.get(name)

    async def _route(self, topic: str) -> TopicRoute | None:
        header = GetRouteHeader(topic=topic)
        reply = await self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerError.from_reply(reply.code, reply.remark, asked=f"route of {topic}")
        route = decode_body(reply.body, TopicRoute)
        self._learn(route.broker_datas)
        return route

    async def _cluster(self, _: str) -> None:
        """Learn all brokers: a client may name one of which no topic was asked for here."""
        reply = await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, NoHeader())
        if reply.code == ResponseCode.SUCCESS:
            self._learn(decode_body(reply.body, ClusterInfo).broker_addr_table.values())

    def _learn(self, brokers: Iterable[BrokerData]) -> None:
        for broker in brokers:
            if MASTER in broker.broker_addrs:
                self._masters[broker.broker_name] = broker.broker_addrs[MASTER]

    async def _ask_name_server(self, code: int, header: Header) -> Command:
        failure: MQError = ConnectError("there is no name server")
        for address in self._name_servers:
            try:
                return await self._connector.request(address, code, header, timeout=SECONDS)
            except TransportError as error:
                failure = error
        raise failure

    async def _address(self, broker_name: str) -> str:
        """Return the address of a master."""
        if broker_name not in self._masters:
            await self._clusters.get("")
        address = self._masters.get(broker_name)
        if address is None:
            raise ConnectError(f"no master of broker {broker_name[:80]} is known")
        return address

    async def _topic(self, name: str) -> TopicFacts | None:
        route: TopicRoute | None = await self._routes.get(name)
        if route is None:
            return None
        queues = tuple(
            BrokerQueues(each.broker_name, each.read_queue_nums, each.write_queue_nums, each.perm)
            for each in sorted(route.queue_datas, key=lambda data: data.broker_name)
            if each.broker_name in self._masters
        )
        return TopicFacts(queues, await self._message_type(name, queues)) if queues else None

    async def _message_type(self, topic: str, queues: Sequence[BrokerQueues]) -> str | None:
        header = GetTopicConfigHeader(topic=topic)
        reply = await self._request(queues[0].broker_name, RequestCode.GET_TOPIC_CONFIG, header, b"", SECONDS)
        if reply.code != ResponseCode.SUCCESS:
            return None  # without a type all are taken
        attributes: dict[str, str] = decode_body(_bytes(reply), TopicConfig).attributes or {}
        return attributes.get(MESSAGE_TYPE)

    def group(self, name: str) -> Awaitable[GroupFacts | None]:
        """Return the settings of a group; the usual ones if brokers have none yet."""
        return self._groups.get(name)

    async def _group(self, name: str) -> GroupFacts:
        if not self._masters:
            await self._clusters.get("")
        for broker in sorted(self._masters):
            header = GetSubscriptionGroupConfigHeader(group=name)
            try:
                reply = await self._request(broker, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header, b"", SECONDS)
            except TransportError as error:
                logger.warning("broker %s does not tell the settings of group %s: %s", broker, name, error)
                continue
            if reply.code == ResponseCode.SUCCESS and reply.body:
                return group_facts(decode_body(_bytes(reply), SubscriptionGroupConfig))
        return GroupFacts()

    # Requests

    def ask(
        self, broker_name: str, code: int, header: Header, body: bytes, peer: Peer, seconds: float = SECONDS
    ) -> Awaitable[Reply]:
        """Ask the master of *broker_name*."""
        if isinstance(header, PopMessageHeader):
            return self._pop(broker_name, header, seconds)
        return self._request(broker_name, code, header, body, seconds)

    async def _request(
        self, broker_name: str, code: int, header: Header, body: bytes, seconds: float, *, is_pop: bool = False
    ) -> Reply:
        address = await self._address(broker_name)
        connector = self._pops if is_pop else self._connector
        try:
            answer = await connector.request(address, code, header, body, timeout=seconds)
        except ConnectError:
            self._masters.pop(broker_name, None)  # another machine may be the master by now
            raise
        return Reply(answer.code, answer.remark, body=answer.body, fields=answer.fields())

    async def _pop(self, broker_name: str, header: PopMessageHeader, seconds: float) -> Reply:
        """Pop; a client that is gone meanwhile does not keep its messages hidden."""
        asked = asyncio.ensure_future(
            self._request(broker_name, RequestCode.POP_MESSAGE, header, b"", seconds, is_pop=True)
        )
        self._left.add(asked)
        asked.add_done_callback(self._left.discard)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(lambda done: self._abandoned(done, broker_name, header))
            raise

    def _abandoned(self, done: "asyncio.Future[Reply]", broker_name: str, header: PopMessageHeader) -> None:
        if done.cancelled() or done.exception() is not None or done.result().code != ResponseCode.SUCCESS:
            return
        task = asyncio.ensure_future(self._release(done.result(), broker_name, header))
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    async def _release(self, reply: Reply, broker_name: str, pop: PopMessageHeader) -> None:
        try:
            for each in deliveries(reply, broker_name):
                receipt = each.handle.receipt
                header = ChangeInvisibleTimeHeader(
                    consumer_group=pop.consumer_group,
                    topic=real_topic(pop.topic, pop.consumer_group, receipt.mark),
                    queue_id=receipt.queue_id,
                    extra_info=receipt.encode(),
                    offset=receipt.offset,
                    invisible_time=RELEASED_MS,
                )
                await self._request(broker_name, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, b"", SECONDS)
        except MQError as error:  # they are visible again when their invisible time has ended
            logger.warning("messages of group %s whose client is gone stay hidden: %s", pop.consumer_group, error)

    # Members: producers alone, so that brokers can check transactions

    async def join(self, peer: Peer, heartbeat: bytes) -> Reply:
        """Tell the brokers of the topics of a producer that this proxy produces to them."""
        topics = [each.group_name for each in decode_body(heartbeat, HeartbeatData).producer_data_set]
        brokers: set[str] = set()
        for topic in topics:
            self._producers.setdefault(topic, {})[peer] = None
            facts = await self._topics.get(topic)
            brokers |= {each.broker_name for each in facts.brokers} if facts is not None else set()
        data = HeartbeatData(
            client_id=self._client_id, producer_data_set=[ProducerData(group_name=topic) for topic in topics]
        )
        for broker in sorted(brokers):
            await self._request(broker, RequestCode.HEART_BEAT, NoHeader(), encode_body(data), SECONDS)
        return Reply()

    def leave(self, peer: Peer, *, consumer_group: str | None, producer_groups: tuple[str, ...]) -> None:
        """Forget a producer. Brokers forget this proxy when no heartbeat comes."""
        for topic in producer_groups:
            members = self._producers.get(topic, {})
            members.pop(peer, None)
            if not members:
                self._producers.pop(topic, None)

    def _check(self, header: CheckTransactionStateHeader, request: Command, connection: Connection) -> Reply:
        """Pass the check of a transaction on to a producer of its topic."""
        stored, error = to_messages(request.body)
        if error is not None or not stored:
            logger.warning("%s: a check of a transaction cannot be read: %s", connection.peer, error)
            return Reply()
        topic = stored[0].properties.get(names.PRODUCER_GROUP) or stored[0].topic
        broker = next((name for name, address in self._masters.items() if address == connection.peer), "")
        named = msgspec.structs.replace(header, target_broker=broker)
        for peer in list(self._producers.get(topic, {})):
            try:
                peer.send_oneway(request.code, named, request.body)
            except TransportError:
                continue
            break
        return Reply()


def _bytes(reply: Reply) -> bytes:
    return b"".join(reply.body) if isinstance(reply.body, list) else bytes(reply.body)
