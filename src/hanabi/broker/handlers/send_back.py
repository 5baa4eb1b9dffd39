"""Messages sent back by a consumer (code 36): stored again under the retry topic of its group, delayed, or as dead
letters.

Agrees with Java's SendMessageProcessor.asyncConsumerSendMsgBack; `send/retry_rules.py` decides between the two. The new
record carries this broker's address, as in 5.x.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from hanabi.broker.send.flow_control import FlowControl
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.retry_rules import (
    DEAD_LETTER_QUEUES,
    dead_letter_topic,
    retry_level,
    retry_topic,
    sent_back_properties,
    topic_sys_flag,
    tries_max,
)
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.send.targets import group_of, retry_target
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import PERM_WRITE, Topics
from hanabi.errors import BrokerError, NoPermission, RemoteProtocolError, SystemBusy
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.connection.turns import turns
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import COPIES_ONLY, MessageStore, PutStatus
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import Record, decode_record

SEARCH_SECONDS_MAX: Final = 0.001

_RETRY_TOPIC = names.RETRY_TOPIC.encode()


def send_back_handlers(
    store: MessageStore,
    intake: Intake,
    topics: Topics,
    groups: Groups,
    settings: Settings,
    stats: BrokerStats,
    flow: FlowControl,
    store_host: bytes,
    *,
    random_below: Callable[[int], int] = random.randrange,
) -> dict[int, Handler]:
    """Return the handler of messages that consumers send back."""
    sends_back = _SendsBack(store, intake, topics, groups, settings, stats, flow, StoreHost(store_host), random_below)
    return {RequestCode.CONSUMER_SEND_MSG_BACK: Handler(ConsumerSendMsgBackHeader, sends_back.handle)}


class _SendsBack:
    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        topics: Topics,
        groups: Groups,
        settings: Settings,
        stats: BrokerStats,
        flow: FlowControl,
        store_host: StoreHost,
        random_below: Callable[[int], int],
    ) -> None:
        self._store, self._intake, self._topics, self._groups = store, intake, topics, groups
        self._settings, self._stats, self._flow, self._store_host = settings, stats, flow, store_host
        self._random_below = random_below

    def handle(
        self, header: ConsumerSendMsgBackHeader, request: Command, _connection: Connection
    ) -> Reply | Awaitable[Reply]:
        if self._settings.is_slave:  # as Apache: code 1 and the status
            raise BrokerError(f"{PutStatus.SERVICE_NOT_AVAILABLE.value}: {COPIES_ONLY}")
        if self._flow.busy is not None:
            raise SystemBusy(self._flow.busy)
        group = group_of(self._groups, header.group)
        if not self._settings.broker.permission & PERM_WRITE:
            raise NoPermission(f"the broker[{self._store_host.host}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return Reply()  # this group has retries disabled
        retry = self._retry_topic(group, unit_mode=header.unit_mode)
        give_back = partial(self._give_back, header, request.version, group, retry)
        view = self._store.queries.queued_record(header.offset)
        if view is not None:
            return give_back(view)
        return turns().run(len(request.body), lambda: give_back(self._indexed(header.offset)))

    def _indexed(self, log_offset: int) -> memoryview | None:
        """Find a message whose topic was deleted. Slower than reading a queue, so the search is queued."""
        return self._store.queries.indexed_record(log_offset, _for_a_moment())

    def _give_back(
        self,
        header: ConsumerSendMsgBackHeader,
        version: int,
        group: SubscriptionGroupConfig,
        retry: TopicConfig,
        view: memoryview | None,
    ) -> Reply | Awaitable[Reply]:
        record = _decoded(header.offset, view)
        tries = tries_max(group, version, header.max_reconsume_times)
        level = retry_level(record.reconsume_times, header.delay_level, tries)
        if level is not None:
            topic, queues = retry.topic_name, group.retry_queue_nums
        else:
            topic, queues = dead_letter_topic(group.group_name), DEAD_LETTER_QUEUES
            retry_target(self._topics, topic, queues)
        message = PendingMessage(
            topic=topic,
            queue_id=self._random_below(queues),
            body=record.body,
            properties=sent_back_properties(
                record.properties,
                topic=record.topic,
                message_id=encode_offset_id(record.store_host, record.log_offset),
                level=level,
            ),
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=record.born_host,
            store_host=self._store_host.raw,
            flag=record.flag,
            sys_flag=record.sys_flag,
            reconsume_times=record.reconsume_times + 1,
            is_stored=True,
        )
        store = partial(self._store_again, message, record, header.group)
        return store() if topic not in self._topics.unsaved else _when_stored(self._topics.when_saved(topic, store))

    def _store_again(self, message: PendingMessage, record: Record, group: str) -> Reply:
        result = self._intake.put(message)
        if result.status is not PutStatus.PUT_OK:
            raise BrokerError(f"{result.status.value}: {result.reason}" if result.reason else result.status.value)
        self._stats.send_back(group, find_property(record.properties, _RETRY_TOPIC) or record.topic, 1)
        return Reply()

    def _retry_topic(self, group: SubscriptionGroupConfig, *, unit_mode: bool) -> TopicConfig:
        topic = retry_topic(group.group_name)
        config = retry_target(self._topics, topic, group.retry_queue_nums, topic_sys_flag(topic, unit_mode))
        if not config.perm & PERM_WRITE:
            raise NoPermission(f"the topic[{topic}] sending message is forbidden")
        return config


def _decoded(log_offset: int, view: memoryview | None) -> Record:
    if view is None:
        raise BrokerError(f"look message by offset failed, {log_offset}")
    try:
        return decode_record(view)
    except RemoteProtocolError as error:
        raise BrokerError(f"look message by offset failed, {log_offset}: {error}") from error


def _for_a_moment() -> Callable[[], bool]:
    """Limit a search of the key index to what the loop can afford. A unique key has a short chain. The thread's own
    time counts, so that a busy machine does not end the search early."""
    ends = time.thread_time() + SEARCH_SECONDS_MAX
    return lambda: time.thread_time() < ends


async def _when_stored(stored: asyncio.Future[Reply]) -> Reply:
    return await asyncio.shield(stored)
