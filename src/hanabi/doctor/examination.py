"""Queries for the diagnosis: collects all data that the rules need, twice where they compare.

Unreachable servers are recorded, and the rest are still queried. If no name server answers, nothing can be diagnosed,
and that is an error.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from hanabi.admin import Admin
from hanabi.admin.access import SUCCESS, Access, BrokerAt, each
from hanabi.admin.groups import kind_of as kind_of_group
from hanabi.admin.topics import kind_of as kind_of_topic
from hanabi.clock import wall_ms
from hanabi.doctor.diagnosis import Diagnosis, diagnose
from hanabi.doctor.snapshot import (
    BrokerSeen,
    DeadLettersSeen,
    GroupSeen,
    NameServerSeen,
    QueuesSeen,
    Snapshot,
    TopicSeen,
)
from hanabi.errors import BrokerError, ConnectError, MQError, TopicNotExist, TransportError
from hanabi.remoting.address import parse_address
from hanabi.wire.bodies.absent import ABSENT_NAMESPACE, AbsentBroker, absent_brokers
from hanabi.wire.bodies.clients import ConsumerConnection, ConsumerRunningInfo
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.bodies.route import ClusterInfo, KVTable, TopicList, TopicRoute
from hanabi.wire.bodies.stats import ConsumeStats
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.client import GetConsumerConnectionListHeader, GetConsumerRunningInfoHeader
from hanabi.wire.headers.group import GetConsumeStatsHeader
from hanabi.wire.headers.namesrv import GetKVListHeader, GetRouteHeader
from hanabi.wire.java_properties import decode_properties
from hanabi.wire.message.tags import subscribed_tags
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

SECONDS_BETWEEN: Final = 3.0
MEMBERS_ASKED_MAX: Final = 16  # of a group, if its broker does not report each member's subscriptions
_OR_OFFLINE: Final = SUCCESS | {int(ResponseCode.CONSUMER_NOT_ONLINE)}
_NOT_FOUND: Final = SUCCESS | {int(ResponseCode.QUERY_NOT_FOUND)}
_NO_TOPIC: Final = SUCCESS | {int(ResponseCode.TOPIC_NOT_EXIST)}
_RUNTIME: Final = re.compile(r"\[ ([\d,.\s]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
_DAY_S: Final = 86_400


async def examine(admin: Admin, *, seconds: float = SECONDS_BETWEEN, now_ms: Callable[[], int] = wall_ms) -> Diagnosis:
    """Query the cluster, query again after *seconds*, and diagnose it."""
    return diagnose(await take_snapshot(admin, seconds=seconds, now_ms=now_ms))


async def take_snapshot(admin: Admin, *, seconds: float, now_ms: Callable[[], int]) -> Snapshot:
    asking = _Asking(admin.access, now_ms)
    servers = await each(admin.access.name_servers, lambda address: asking.name_server(address, asked_for=True))
    if all(server.problem is not None for server in servers):
        raise ConnectError(
            f"no name server can be reached (-n, --namesrv): {'; '.join(str(server.problem) for server in servers)}"
        )
    brokers = await asking.brokers(servers)
    servers += await asking.further_name_servers(servers, brokers)
    answering = next(server for server in servers if server.problem is None)
    masters = [broker for broker in brokers if broker.is_master and broker.answers]
    topics = await asking.topics(answering, masters)
    groups = await asking.groups(masters)
    letters = await _waiting(admin, answering, brokers)
    there = [broker.at for broker in brokers if broker.answers]
    replication = await admin.replication.of(there)
    has_slaves = any(each.slaves for each in replication)
    if groups or letters or has_slaves:
        await asyncio.sleep(seconds)
    groups = await asking.groups_later(groups, masters)
    letters_later = await _waiting(admin, answering, brokers) if letters else {}
    return Snapshot(
        name_servers=tuple(servers),
        brokers=tuple(brokers),
        topics=tuple(topics),
        groups=tuple(groups),
        dead_letters=tuple(
            DeadLettersSeen(group=group, waiting=letters.get(group, 0), waiting_later=count)
            for group, count in letters_later.items()
        ),
        replication=tuple(replication),
        replication_later=tuple(await admin.replication.of(there) if has_slaves else replication),
        seconds=seconds,
    )


async def _waiting(admin: Admin, answering: NameServerSeen, brokers: Iterable[BrokerSeen]) -> dict[str, int]:
    """Return the number of waiting dead letters, by group; none while a master, which may have some, is unreachable."""
    if not all(broker.answers for broker in brokers if broker.is_master):
        return {}
    groups = sorted(
        topic.removeprefix(DEAD_LETTER_PREFIX) for topic in answering.topics if topic.startswith(DEAD_LETTER_PREFIX)
    )
    found: dict[str, int] = {}
    for group in groups:
        with suppress(TopicNotExist):  # deleted since it was listed
            found[group] = (await admin.dead_letters.of(group)).waiting
    return found


class _Asking:
    """Queries, one method per kind of object."""

    def __init__(self, access: Access, now_ms: Callable[[], int]) -> None:
        self._access, self._now_ms = access, now_ms

    # Name servers and brokers

    async def name_server(self, address: str, *, asked_for: bool) -> NameServerSeen:
        ask, seconds = self._access.api.ask, self._access.seconds
        loopback = await is_loopback(address)
        try:
            reply = await ask(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout=seconds)
            topics = await ask(address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout=seconds)
        except (TransportError, BrokerError) as error:
            return NameServerSeen(address=address, asked_for=asked_for, loopback=loopback, problem=str(error))
        info = decode_body(reply.body, ClusterInfo)
        return NameServerSeen(
            address=address,
            asked_for=asked_for,
            loopback=loopback,
            version=reply.version,
            brokers=tuple(
                BrokerAt(
                    cluster=data.cluster,
                    broker=data.broker_name,
                    broker_id=number,
                    address=self._access.core.config.mapped(address),
                )
                for data in info.broker_addr_table.values()
                for number, address in data.broker_addrs.items()
            ),
            topics=frozenset(decode_body(topics.body, TopicList).topic_list),
            absent=tuple(await self._absent(address)),
        )

    async def _absent(self, name_server: str) -> list[AbsentBroker]:
        """Return the brokers that a name server reports as absent; of replaced ones, those that still run."""
        reply = await self._access.api.ask(
            name_server,
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            GetKVListHeader(namespace=ABSENT_NAMESPACE),
            timeout=self._access.seconds,
            accept=_NOT_FOUND,
        )
        if reply.code != ResponseCode.SUCCESS:
            return []  # Apache's: it does not report them
        found = absent_brokers(decode_body(reply.body, KVTable))
        return [absent for absent in found if absent.why != "replaced" or await self._still_runs(absent)]

    async def _still_runs(self, absent: AbsentBroker) -> bool:
        address = self._access.core.config.mapped(absent.address)
        try:
            reply = await self._access.api.ask(address, RequestCode.GET_BROKER_CONFIG, timeout=self._access.seconds)
        except (TransportError, BrokerError):
            return False
        settings = decode_properties(bytes(reply.body))
        return (settings.get("brokerName"), settings.get("brokerId")) == (absent.broker, str(absent.broker_id))

    async def brokers(self, servers: Iterable[NameServerSeen]) -> list[BrokerSeen]:
        named_by: dict[BrokerAt, list[str]] = {}
        for server in servers:
            for broker in server.brokers:
                named_by.setdefault(broker, []).append(server.address)
        return await each(sorted(named_by), lambda broker: self._broker(broker, tuple(named_by[broker])))

    async def _broker(self, at: BrokerAt, told_by: tuple[str, ...]) -> BrokerSeen:
        seen = BrokerSeen(at=at, told_by=told_by, loopback=await is_loopback(at.address))
        before = self._now_ms()
        try:
            runtime = (await self._access.ask_for(at, RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)).table
            after = self._now_ms()
            settings = await self._access.ask(at, RequestCode.GET_BROKER_CONFIG)
        except TransportError as error:
            return msgspec.structs.replace(seen, unreachable=str(error))
        except BrokerError as error:
            return msgspec.structs.replace(seen, refused=str(error))
        there = broker_clock_ms(runtime)
        return msgspec.structs.replace(
            seen,
            runtime=runtime,
            settings=decode_properties(bytes(settings.body)),
            clock_ahead_ms=None if there is None else there - (before + after) // 2,
            clock_unsure_ms=500 + (after - before) // 2,
        )

    async def further_name_servers(
        self, servers: Iterable[NameServerSeen], brokers: Iterable[BrokerSeen]
    ) -> list[NameServerSeen]:
        """Query further name servers, with which brokers register. One that a broker on another machine calls its own
        machine is skipped.
        """
        known = {server.address for server in servers}
        near = all(server.loopback for server in servers)
        named = {
            address.strip()
            for broker in brokers
            for address in broker.settings.get("namesrvAddr", "").replace(",", ";").split(";")
            if address.strip()
        }
        far = [address for address in sorted(named - known) if near or not await is_loopback(address)]
        return await each(far, lambda address: self.name_server(address, asked_for=False))

    # Topics

    async def topics(self, answering: NameServerSeen, masters: Iterable[BrokerSeen]) -> list[TopicSeen]:
        own = {broker.broker for broker in answering.brokers} | {broker.cluster for broker in answering.brokers}
        for broker in masters:
            listed = await self._access.ask_for(broker.at, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, TopicList)
            own |= set(listed.topic_list)
        names = [topic for topic in sorted(answering.topics) if kind_of_topic(topic, frozenset(own)) == "normal"]
        found = await each(names, lambda topic: self._topic(answering.address, topic))
        return [topic for topic in found if topic is not None]

    async def _topic(self, name_server: str, topic: str) -> TopicSeen | None:
        reply = await self._access.api.ask(
            name_server,
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            GetRouteHeader(topic=topic),
            timeout=self._access.seconds,
            accept=_NO_TOPIC,
        )
        if reply.code != ResponseCode.SUCCESS:
            return None  # deleted since it was listed
        route = decode_body(reply.body, TopicRoute)
        there = {data.broker_name for data in route.broker_datas if data.broker_addrs}
        return TopicSeen(
            topic=topic,
            queues=tuple(
                QueuesSeen(
                    broker=queue.broker_name,
                    read_queues=queue.read_queue_nums,
                    write_queues=queue.write_queue_nums,
                    has_address=queue.broker_name in there,
                )
                for queue in route.queue_datas
            ),
            ordered_on=tuple(part.rpartition(":")[0] for part in (route.order_topic_conf or "").split(";") if part),
        )

    # Groups

    async def groups(self, masters: list[BrokerSeen]) -> list[GroupSeen]:
        names: set[str] = set()
        for broker in masters:
            code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            names |= set((await self._access.ask_for(broker.at, code, SubscriptionGroupTable)).subscription_group_table)
        wanted = [name for name in sorted(names) if kind_of_group(name) == "normal"]
        return await each(wanted, lambda name: self._group(name, masters))

    async def groups_later(self, groups: list[GroupSeen], masters: list[BrokerSeen]) -> list[GroupSeen]:
        async def later(group: GroupSeen) -> GroupSeen:
            return msgspec.structs.replace(group, lag_later=await self._lag(group.group, masters))

        return await each(groups, later)

    async def _group(self, name: str, masters: list[BrokerSeen]) -> GroupSeen:
        members: set[str] = set()
        topics: set[str] = set()
        opinions: dict[str, set[str]] = {}
        model = None
        for broker in masters:
            reply = await self._access.ask(
                broker.at,
                RequestCode.GET_CONSUMER_CONNECTION_LIST,
                GetConsumerConnectionListHeader(consumer_group=name),
                accept=_OR_OFFLINE,
            )
            if reply.code != ResponseCode.SUCCESS:
                continue
            found = decode_body(reply.body, ConsumerConnection)
            model = found.message_model or model
            members |= {client.client_id or "" for client in found.connection_set}
            topics |= {topic for topic in found.subscription_table if not topic.startswith(RETRY_PREFIX)}
            for opinion in found.subscription_opinions or ():
                opinions.setdefault(opinion.subscribes, set()).update(opinion.client_ids)
            if not broker.is_ours:
                for client in found.connection_set[:MEMBERS_ASKED_MAX] if len(found.connection_set) > 1 else ():
                    said = await self._subscribes(broker.at, name, client.client_id or "")
                    if said is not None:
                        opinions.setdefault(said, set()).add(client.client_id or "")
        return GroupSeen(
            group=name,
            members=frozenset(members),
            message_model=model,
            topics=frozenset(topics),
            opinions={what: tuple(sorted(members)) for what, members in opinions.items()},
            lag=await self._lag(name, masters),
        )

    async def _subscribes(self, broker: BrokerAt, group: str, client_id: str) -> str | None:
        """Return the subscriptions that a member reports; None if it does not answer: it may be gone since."""
        header = GetConsumerRunningInfoHeader(consumer_group=group, client_id=client_id)
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        try:
            info = await self._access.ask_for(broker, code, ConsumerRunningInfo, header)
        except MQError:
            return None
        return subscriptions_text(info.subscription_set)

    async def _lag(self, group: str, masters: Iterable[BrokerSeen]) -> int:
        lag = 0
        for broker in masters:
            header = GetConsumeStatsHeader(consumer_group=group)
            stats = await self._access.ask_for(broker.at, RequestCode.GET_CONSUME_STATS, ConsumeStats, header)
            lag += sum(each.broker_offset - each.consumer_offset for each in stats.offset_table.values())
        return lag


def broker_clock_ms(runtime: Mapping[str, str]) -> int | None:
    """Return a broker's clock at its answer, within half a second: its start time plus its uptime."""
    since, ago = runtime.get("bootTimestamp", ""), _RUNTIME.fullmatch(runtime.get("runtime", ""))
    if not since.isdigit() or ago is None:
        return None
    days = int(re.sub(r"\D", "", ago[1]))
    seconds = days * _DAY_S + int(ago[2]) * 3_600 + int(ago[3]) * 60 + int(ago[4])
    return int(since) + seconds * 1_000 + 500


def subscriptions_text(subscriptions: Iterable[SubscriptionData]) -> str:
    """Describe subscriptions as text, the same for equal ones."""
    words = []
    for data in subscriptions:
        if data.topic.startswith(RETRY_PREFIX):
            continue
        text = data.sub_string or "*"
        if data.expression_type in (None, "", "TAG"):
            words.append(f"{data.topic}: {' || '.join(sorted(subscribed_tags(text)[0])) or '*'}")
        else:
            words.append(f"{data.topic}: {data.expression_type} {text}")
    return ", ".join(sorted(words)) or "nothing"


async def is_loopback(address: str) -> bool:
    """Return True if an address is a loopback on every machine. An unknown name is none."""
    try:
        host, port = parse_address(address)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return all(ipaddress.ip_address(str(place[4][0]).partition("%")[0]).is_loopback for place in found)
