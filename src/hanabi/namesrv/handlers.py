"""Request handlers of the name server, and their table by request code.

Codes, remarks and bodies are those of Java's DefaultRequestProcessor of 4.9.8, with what a 5.x broker asks added.
The handlers only translate: decisions are in `route_table`, files in `kv_config` and `settings`.
"""

import asyncio
import logging
import zlib
from collections.abc import Callable

from hanabi.errors import NoPermission
from hanabi.namesrv.absent_brokers import AbsentBrokers
from hanabi.namesrv.encoded_routes import RouteForm
from hanabi.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfig
from hanabi.namesrv.peer_warnings import PeerWarnings
from hanabi.namesrv.route_table import RouteTable
from hanabi.namesrv.settings import Settings
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.started_threads import in_own_thread
from hanabi.wire.bodies.absent import ABSENT_NAMESPACE, absent_table
from hanabi.wire.bodies.route import BrokerMemberGroup, BrokerMemberGroupReply, KVTable, TopicList, TopicRoute
from hanabi.wire.bodies.topics import DataVersion, TopicConfigTable, decode_register_body
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import V5_0_0, Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.namesrv import (
    AddWritePermHeader,
    AddWritePermReplyHeader,
    BrokerHeartbeatHeader,
    DeleteKVConfigHeader,
    DeleteTopicInNamesrvHeader,
    GetBrokerMemberGroupHeader,
    GetKVConfigHeader,
    GetKVConfigReplyHeader,
    GetKVListHeader,
    GetRouteHeader,
    GetTopicsByClusterHeader,
    PutKVConfigHeader,
    QueryDataVersionHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterTopicHeader,
    UnregisterBrokerHeader,
    WipeWritePermHeader,
    WipeWritePermReplyHeader,
)

# A peer's version is an ordinal of Java's MQVersion.
VERSION_3_0_11 = 37  # from here on a broker's body also has its filter servers
VERSION_4_9_4 = 401  # from here on a client reads routes in standard JSON

# The longest bodies, where there are any. A registration alone may fill a frame: it has all topics of a broker.
DATA_VERSION_BYTES_MAX = 4 * 1024  # three numbers
TOPIC_ROUTE_BYTES_MAX = 1024 * 1024  # one topic: a hundred bytes a broker
SETTINGS_BYTES_MAX = 64 * 1024  # two settings may be changed; reading text takes a microsecond every few bytes
NO_BODY_BYTES_MAX = 4 * 1024  # RocketMQ sends no body with the other requests; a small one is ignored

logger = logging.getLogger(__name__)


def namesrv_handlers(
    table: RouteTable, kv: KVConfig, settings: Settings, now_ms: Callable[[], int]
) -> dict[int, Handler]:
    """Return the table from request code to handler."""
    routes = RouteHandlers(table, kv, settings)
    brokers = BrokerHandlers(table, kv, now_ms)
    topics = TopicHandlers(table)
    values = KVHandlers(kv, table.absent, now_ms)
    config = SettingsHandlers(settings)
    return {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: Handler(GetRouteHeader, routes.get_route, NO_BODY_BYTES_MAX),
        RequestCode.GET_BROKER_CLUSTER_INFO: Handler(NoHeader, routes.get_cluster_info, NO_BODY_BYTES_MAX),
        RequestCode.GET_BROKER_MEMBER_GROUP: Handler(
            GetBrokerMemberGroupHeader, routes.get_member_group, NO_BODY_BYTES_MAX
        ),
        RequestCode.REGISTER_BROKER: Handler(RegisterBrokerHeader, brokers.register),
        RequestCode.UNREGISTER_BROKER: Handler(UnregisterBrokerHeader, brokers.unregister, NO_BODY_BYTES_MAX),
        RequestCode.BROKER_HEARTBEAT: Handler(BrokerHeartbeatHeader, brokers.heartbeat, NO_BODY_BYTES_MAX),
        RequestCode.QUERY_DATA_VERSION: Handler(
            QueryDataVersionHeader, brokers.query_data_version, DATA_VERSION_BYTES_MAX
        ),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: Handler(
            WipeWritePermHeader, brokers.wipe_write_permission, NO_BODY_BYTES_MAX
        ),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: Handler(
            AddWritePermHeader, brokers.add_write_permission, NO_BODY_BYTES_MAX
        ),
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: Handler(RegisterTopicHeader, topics.register, TOPIC_ROUTE_BYTES_MAX),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: Handler(DeleteTopicInNamesrvHeader, topics.delete, NO_BODY_BYTES_MAX),
        RequestCode.GET_TOPICS_BY_CLUSTER: Handler(GetTopicsByClusterHeader, topics.of_cluster, NO_BODY_BYTES_MAX),
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _listing(table.all_topics),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _listing(table.system_topics),
        RequestCode.GET_UNIT_TOPIC_LIST: _listing(table.unit_topics),
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _listing(table.unit_subscribed_topics),
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _listing(table.unit_subscribed_topics_of_no_unit),
        RequestCode.PUT_KV_CONFIG: Handler(PutKVConfigHeader, values.put, NO_BODY_BYTES_MAX),
        RequestCode.GET_KV_CONFIG: Handler(GetKVConfigHeader, values.get, NO_BODY_BYTES_MAX),
        RequestCode.DELETE_KV_CONFIG: Handler(DeleteKVConfigHeader, values.delete, NO_BODY_BYTES_MAX),
        RequestCode.GET_KVLIST_BY_NAMESPACE: Handler(GetKVListHeader, values.list_namespace, NO_BODY_BYTES_MAX),
        RequestCode.UPDATE_NAMESRV_CONFIG: Handler(NoHeader, config.update, SETTINGS_BYTES_MAX),
        RequestCode.GET_NAMESRV_CONFIG: Handler(NoHeader, config.show, NO_BODY_BYTES_MAX),
    }


def _route_form(header: GetRouteHeader, request: Command) -> RouteForm:
    if request.version >= V5_0_0:
        return RouteForm.EXTENDED
    if request.version >= VERSION_4_9_4 or header.accept_standard_json_only is True:
        return RouteForm.STANDARD
    return RouteForm.DIALECT


class RouteHandlers:
    """Handlers of route queries."""

    def __init__(self, table: RouteTable, kv: KVConfig, settings: Settings) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings

    def get_route(self, header: GetRouteHeader, request: Command, _: Connection) -> Reply:
        topic = header.topic
        body = self._table.encoded_route(
            topic,
            _route_form(header, request),
            order_conf=self._kv.get(ORDER_TOPIC_CONFIG, topic) if self._settings.current.order_message_enable else None,
        )
        if body is None:
            return Reply(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}\n"
                "See http://rocketmq.apache.org/docs/faq/ for further details.",
            )
        return Reply(body=body)

    def get_cluster_info(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        return Reply(body=encode_body(self._table.cluster_info(extended=request.version >= V5_0_0)))

    def get_member_group(self, header: GetBrokerMemberGroupHeader, _: Command, connection: Connection) -> Reply:
        group = BrokerMemberGroup(
            broker_addrs=self._table.addresses(header.broker_name),
            broker_name=header.broker_name,
            cluster=header.cluster_name,
        )
        return Reply(body=encode_body(BrokerMemberGroupReply(broker_member_group=group)))


class BrokerHandlers:
    """Handlers of registrations, and of changes by operators."""

    def __init__(self, table: RouteTable, kv: KVConfig, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._kv = kv
        self._now_ms = now_ms
        self._warnings = PeerWarnings()

    def register(self, header: RegisterBrokerHeader, request: Command, connection: Connection) -> Reply:
        if header.body_crc32 and header.body_crc32 != zlib.crc32(request.body) & 0x7FFF_FFFF:
            self._warnings.warn(connection, "%s: the topics of broker %s are damaged", header.broker_name)
            return Reply(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        topics, filter_servers = _topics_sent(header, request)
        try:
            answer = self._table.register(header, topics, filter_servers, connection, self._now_ms())
        except NoPermission as error:
            self._warnings.warn(connection, "%s: broker %s is refused: %s", header.broker_name, error)
            raise
        ordered = self._kv.namespace(ORDER_TOPIC_CONFIG)
        return Reply(header=answer, body=b"" if ordered is None else encode_body(KVTable(table=ordered)))

    def unregister(self, header: UnregisterBrokerHeader, _: Command, connection: Connection) -> Reply:
        self._table.unregister(header)
        return Reply()

    def heartbeat(self, header: BrokerHeartbeatHeader, _: Command, connection: Connection) -> Reply:
        self._table.seen(header.cluster_name, header.broker_name, header.broker_addr, self._now_ms())
        return Reply()

    def query_data_version(self, header: QueryDataVersionHeader, request: Command, _: Connection) -> Reply:
        asked = decode_body(request.body, DataVersion)
        known = self._table.data_version(header.cluster_name, header.broker_name, header.broker_addr)
        self._table.seen(header.cluster_name, header.broker_name, header.broker_addr, self._now_ms())
        return Reply(
            header=QueryDataVersionReplyHeader(changed=known != asked),
            body=b"" if known is None else encode_body(known),
        )

    def wipe_write_permission(self, header: WipeWritePermHeader, _: Command, connection: Connection) -> Reply:
        count = self._table.wipe_write_permission(header.broker_name)
        logger.info("%s: no more writes to the %d topics of broker %s", connection.peer, count, header.broker_name)
        return Reply(header=WipeWritePermReplyHeader(wipe_topic_count=count))

    def add_write_permission(self, header: AddWritePermHeader, _: Command, connection: Connection) -> Reply:
        count = self._table.add_write_permission(header.broker_name)
        logger.info("%s: writes again to the %d topics of broker %s", connection.peer, count, header.broker_name)
        return Reply(header=AddWritePermReplyHeader(add_topic_count=count))


def _topics_sent(header: RegisterBrokerHeader, request: Command) -> tuple[TopicConfigTable, list[str] | None]:
    """Return the topics and filter servers in a registration; no filter servers from an old broker."""
    if request.version < VERSION_3_0_11:
        return (decode_body(request.body, TopicConfigTable) if request.body else TopicConfigTable()), None
    if not request.body:
        return TopicConfigTable(), []
    body = decode_register_body(request.body, header.compressed)
    return body.topic_config_serialize_wrapper, body.filter_server_list


class TopicHandlers:
    """Topics by name."""

    def __init__(self, table: RouteTable) -> None:
        self._table = table

    def register(self, header: RegisterTopicHeader, request: Command, _: Connection) -> Reply:
        if request.body:
            self._table.register_topic(header.topic, decode_body(request.body, TopicRoute).queue_datas)
        return Reply()

    def delete(self, header: DeleteTopicInNamesrvHeader, _: Command, connection: Connection) -> Reply:
        count = self._table.delete_topic(header.topic, header.cluster_name)
        if count:
            where = header.cluster_name or "all clusters"
            logger.info("%s: topic %s is deleted in %s, on %d brokers", connection.peer, header.topic, where, count)
        return Reply()

    def of_cluster(self, header: GetTopicsByClusterHeader, _: Command, connection: Connection) -> Reply:
        return Reply(body=encode_body(self._table.topics_of_cluster(header.cluster)))


def _listing(topics: Callable[[], TopicList]) -> Handler:
    return Handler(
        NoHeader, lambda _header, _request, _connection: Reply(body=encode_body(topics())), NO_BODY_BYTES_MAX
    )


class KVHandlers:
    """Values under a namespace and a key."""

    def __init__(self, kv: KVConfig, absent: AbsentBrokers, now_ms: Callable[[], int]) -> None:
        self._kv, self._absent, self._now_ms = kv, absent, now_ms
        self._changing = asyncio.Lock()

    async def put(self, header: PutKVConfigHeader, _: Command, connection: Connection) -> Reply:
        await self._change(self._kv.put, header.namespace, header.key, header.value)
        return Reply()

    def get(self, header: GetKVConfigHeader, _: Command, connection: Connection) -> Reply:
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return Reply(ResponseCode.QUERY_NOT_FOUND, remark)
        return Reply(header=GetKVConfigReplyHeader(value=value))

    async def delete(self, header: DeleteKVConfigHeader, _: Command, connection: Connection) -> Reply:
        await self._change(self._kv.delete, header.namespace, header.key)
        return Reply()

    async def _change(self, change: Callable[..., None], *arguments: str) -> None:
        """Change the table in a thread, as it blocks for the disk; to its end, also if the peer goes."""
        await asyncio.shield(self._one_at_a_time(change, *arguments))

    async def _one_at_a_time(self, change: Callable[..., None], *arguments: str) -> None:
        async with self._changing:
            await in_own_thread(change, *arguments)

    def list_namespace(self, header: GetKVListHeader, _: Command, connection: Connection) -> Reply:
        if header.namespace == ABSENT_NAMESPACE:
            return Reply(body=encode_body(absent_table(self._absent.listed(self._now_ms()))))
        table = self._kv.namespace(header.namespace)
        if table is None:
            return Reply(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
        return Reply(body=encode_body(KVTable(table=table)))


class SettingsHandlers:
    """The name server's own settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def update(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if request.body:
            logger.info("%s changes settings", connection.peer)
            await self._settings.change(request.body)
        return Reply()

    def show(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        return Reply(body=self._settings.text())
