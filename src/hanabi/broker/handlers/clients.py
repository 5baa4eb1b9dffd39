"""Requests of clients about themselves and their group: heartbeats, unregistration, subscription checks, member lists,
queue locks.

The handlers only translate: `clients/` keeps the members, `clients/queue_locks.py` the locks. Codes and remarks are
those of Java's ClientManageProcessor, ConsumerManageProcessor and AdminBrokerProcessor.
"""

import logging
from collections.abc import Awaitable, Iterator

from hanabi.broker.clients.client import Client, client_of
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.limits import HEARTBEAT_BYTES_MAX, check_heartbeat, check_name
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.filters.sql.compiled import compile_sql
from hanabi.broker.filters.sql.rule import compile_rule
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.send.retry_rules import READ_AND_WRITE, UNIT_SUBSCRIBED, retry_topic
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.errors import MQError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.heartbeat import RULE, SQL92, TAG, CheckClientRequest, ConsumerData, HeartbeatData
from hanabi.wire.bodies.locks import LockReply, LockRequest
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.client import GetConsumerListByGroupHeader, HeartbeatReplyHeader, UnregisterClientHeader

CHECK_BYTES_MAX = 256 * 1024  # one subscription
LOCK_BYTES_MAX = 4 * 1024 * 1024  # some ten thousands of queues
NO_BODY_BYTES_MAX = 4 * 1024
QUEUES_PER_LOCK_MAX = 20_000
GROUPS_AT_ONCE = 64  # of one heartbeat; more are processed in batches

logger = logging.getLogger(__name__)

# 5.x clients read both; older ones read neither.
_KNOWN = HeartbeatReplyHeader(supports_v2=True, subscription_changed=False)
_SAY_IT_IN_FULL = HeartbeatReplyHeader(supports_v2=True, subscription_changed=True)


def client_handlers(
    producers: Producers,
    consumers: Consumers,
    locks: QueueLocks,
    topics: Topics,
    groups: Groups,
    settings: Settings,
) -> dict[int, Handler]:
    """Return the handlers by request code."""
    presence = PresenceHandlers(producers, consumers, topics, groups)
    members = MemberHandlers(consumers, locks)
    subscriptions = SubscriptionHandlers(settings)
    return {
        RequestCode.HEART_BEAT: Handler(NoHeader, presence.heartbeat, HEARTBEAT_BYTES_MAX),
        RequestCode.UNREGISTER_CLIENT: Handler(UnregisterClientHeader, presence.unregister, NO_BODY_BYTES_MAX),
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: Handler(
            GetConsumerListByGroupHeader, members.client_ids, NO_BODY_BYTES_MAX
        ),
        RequestCode.LOCK_BATCH_MQ: Handler(NoHeader, members.lock, LOCK_BYTES_MAX),
        RequestCode.UNLOCK_BATCH_MQ: Handler(NoHeader, members.unlock, LOCK_BYTES_MAX),
        RequestCode.CHECK_CLIENT_CONFIG: Handler(NoHeader, subscriptions.check, CHECK_BYTES_MAX),
    }


class PresenceHandlers:
    """Heartbeats and unregistration. A heartbeat also creates the group and its retry topic."""

    def __init__(self, producers: Producers, consumers: Consumers, topics: Topics, groups: Groups) -> None:
        self._producers = producers
        self._consumers = consumers
        self._topics = topics
        self._groups = groups

    def heartbeat(self, _: NoHeader, request: Command, connection: Connection) -> Reply | Awaitable[Reply]:
        data = decode_body(request.body, HeartbeatData)
        check_heartbeat(data)
        client = client_of(data.client_id, request, connection)
        signs = self._signs_of_life(client, data)
        if len(data.consumer_data_set) + len(data.producer_data_set) > GROUPS_AT_ONCE:
            return self._in_pieces(signs)
        return _heard(all([*signs]))

    async def _in_pieces(self, signs: Iterator[bool]) -> Reply:
        pace, known = Yielder(), True
        for sign in signs:
            known &= sign
            await pace.pause()
        return _heard(known)

    def _signs_of_life(self, client: Client, data: HeartbeatData) -> Iterator[bool]:
        """Yield for each group whether the client's subscriptions there are known."""
        for consumer in data.consumer_data_set:
            yield self._consumer(client, consumer, data)
        for producer in data.producer_data_set:
            self._producers.heartbeat(client, producer.group_name)
            yield True

    def _consumer(self, client: Client, consumer: ConsumerData, data: HeartbeatData) -> bool:
        config = self._groups.find(consumer.group_name)
        if config is not None and config.consume_enable:
            topic = retry_topic(consumer.group_name)
            if self._topics.find(topic) is None:
                sys_flag = UNIT_SUBSCRIBED if consumer.unit_mode else 0
                self._topics.create_on_send_back(topic, config.retry_queue_nums, READ_AND_WRITE, sys_flag)
        return self._consumers.heartbeat(
            client,
            consumer,
            fingerprint=data.heartbeat_fingerprint,
            # A fingerprint of 0 means none; Java then takes the heartbeat as it stands.
            without_subscriptions=data.without_sub and data.heartbeat_fingerprint != 0,
            notifies=config is None or config.notify_consumer_ids_changed_enable,
        )

    def unregister(self, header: UnregisterClientHeader, _: Command, connection: Connection) -> Reply:
        if header.producer_group is not None:
            self._producers.unregister(header.producer_group, connection)
        if header.consumer_group is not None:
            self._consumers.unregister(header.consumer_group, connection)
        return Reply()


def _heard(known: bool) -> Reply:
    return Reply(header=_KNOWN if known else _SAY_IT_IN_FULL)


class MemberHandlers:
    """Member lists and queue locks, for rebalancing."""

    def __init__(self, consumers: Consumers, locks: QueueLocks) -> None:
        self._consumers = consumers
        self._locks = locks

    def client_ids(self, header: GetConsumerListByGroupHeader, _: Command, connection: Connection) -> Reply:
        group = self._consumers.find_group(header.consumer_group)
        if group is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group}")
        return Reply(body=group.encoded_client_ids)

    def lock(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        asked = _lock_request(request)
        locked = self._locks.lock(asked.consumer_group, asked.client_id, asked.mq_set)
        return Reply(body=encode_body(LockReply(lock_ok_mq_set=locked)))

    def unlock(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        asked = _lock_request(request)
        self._locks.unlock(asked.consumer_group, asked.client_id, asked.mq_set)
        return Reply()


def _lock_request(request: Command) -> LockRequest:
    asked = decode_body(request.body, LockRequest)
    check_name(asked.consumer_group, "consumer group")
    check_name(asked.client_id, "client id")
    if len(asked.mq_set) > QUEUES_PER_LOCK_MAX:
        raise MQError(f"{len(asked.mq_set)} queues in one request, limit {QUEUES_PER_LOCK_MAX}")
    for queue in asked.mq_set:
        check_name(queue.topic, "topic")
    return asked


class SubscriptionHandlers:
    """Check of a subscription, sent by a consumer with an expression before it starts."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if not request.body:
            return Reply()
        asked = decode_body(request.body, CheckClientRequest)
        subscription = asked.subscription_data
        kind = subscription.expression_type
        if kind in (TAG, ""):
            return Reply()
        if not self._settings.broker.property_filter_enabled:
            return Reply(ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind}")
        if kind not in (SQL92, RULE):
            return Reply(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"expression type {kind} is not known; TAG, SQL92 and RULE are"
            )
        try:
            (compile_rule if kind == RULE else compile_sql)(subscription.sub_string or "")
        except MQError as error:
            logger.info(
                "%s of group %s cannot subscribe to %s: %s", asked.client_id, asked.group, subscription.topic, error
            )
            raise
        return Reply()
