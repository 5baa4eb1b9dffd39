"""Messages: find one by id, key or offset; read a topic; follow a trace; deliver one to a consumer.

Sends the requests of mqadmin's queryMsgById, queryMsgByUniqueKey, queryMsgByKey, queryMsgByOffset, queryMsgTraceById,
printMsg and of queryMsgById's direct consumption. Reading joins no group and saves no offset.
"""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from hanabi.admin.access import Access, BrokerAt, each
from hanabi.admin.answer import Answer
from hanabi.admin.groups import Groups
from hanabi.admin.topics import kind_of
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.client.consumer.pull_request import Pulling, PullStatus
from hanabi.client.consumer.subscription import ALL, subscription_data
from hanabi.client.producer.recalling import read_handle, recall
from hanabi.errors import (
    BrokerError,
    ConnectError,
    InvalidParameter,
    QueryNotFound,
    RemoteProtocolError,
    TransportError,
)
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.client import ConsumeMessageDirectlyHeader
from hanabi.wire.headers.query import QueryMessageHeader
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.stored import to_messages
from hanabi.wire.system_names import TOOLS_GROUP, TRACE_TOPIC

TOOLS_PRODUCER: Final = "TOOLS_PRODUCER"
EVER_MS: Final = 2**62
DIRECT_SECONDS: Final = 30.0  # timeout of a listener
TOPICS_SEARCHED_MAX: Final = 2_000  # for one id
UNIQUE_MAX: Final = 64  # one id names one message, but a resent message has the same


class Range(Answer, frozen=True, kw_only=True):
    """Range of a topic to read: broker and queue, store time from and until, and tags."""

    broker: str | None = None
    queue_id: int | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    tags: str = ALL

    def has(self, queue: MessageQueue) -> bool:
        return self.broker in (None, queue.broker_name) and self.queue_id in (None, queue.queue_id)


class TraceEvent(Answer, frozen=True, kw_only=True):
    """One step of a message's way: Pub, SubBefore, SubAfter or EndTransaction. None: not in the trace."""

    event: str
    time: int
    group: str | None
    topic: str | None = None
    message_id: str
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    cost_ms: int | None = None
    success: bool | None = None
    retries: int | None = None
    request_id: str | None = None
    state: str | None = None  # of a transaction


class DirectConsumption(Answer, frozen=True, kw_only=True):
    """Result of a listener for a message delivered directly."""

    group: str
    client_id: str
    message_id: str
    result: str
    remark: str | None
    spent_ms: int


class Recalled(Answer, frozen=True, kw_only=True):
    """A timed message that its broker will not deliver."""

    topic: str
    broker: str
    message_id: str


def _named(topic: str | None) -> str:
    return "any topic" if topic is None else f"topic {topic}"


class Messages:
    """Queries and actions about single messages."""

    def __init__(self, access: Access, groups: Groups) -> None:
        self._access, self._groups, self._queues = access, groups, QueueAccess(access.core)

    async def get(self, message_id: str, topic: str | None = None) -> StoredMessage:
        """Return the message with this id: a broker's, or its producer's. Without *topic* the latter is searched in all
        topics of users.
        """
        if topic is not None and (found := await self._by_unique_key(message_id, [topic])):
            return found
        try:
            place = decode_offset_id(message_id)
            address = self._access.core.config.mapped(str(place.address))
        except (RemoteProtocolError, ValueError):
            if topic is None and (found := await self._by_unique_key(message_id, await self._topics())):
                return found
            raise QueryNotFound(f"no message of {_named(topic)} has the id {message_id}") from None
        if found := await self._at_place(address, place.log_offset, message_id, topic):
            return found
        if topic is None and (found := await self._by_unique_key(message_id, await self._topics())):
            return found
        raise QueryNotFound(
            f"message id {message_id}: no message of {_named(topic)} has it, and no broker is at {address}, where it"
            " would lie if a broker gave it"
        )

    async def recall(self, handle: str) -> Recalled:
        """Take back the timed message of *handle*."""
        read = read_handle(handle)
        message_id = await recall(self._access.core, handle, TOOLS_PRODUCER, self._access.seconds)
        return Recalled(topic=read.topic, broker=read.broker_name, message_id=message_id)

    async def _at_place(
        self, address: str, log_offset: int, message_id: str, topic: str | None
    ) -> StoredMessage | None:
        """Return the message that a broker gave this id; None if no broker is at *address*. Slaves have the same log as
        their master, so they are asked while it is gone.
        """
        brokers = await self._access.brokers()
        giver = next((broker for broker in brokers if broker.address == address), None)
        if giver is not None:
            try:
                return await self._view(giver, log_offset, message_id, topic)
            except TransportError:
                slaves = [broker for broker in brokers if broker.broker == giver.broker and broker != giver]
                if not slaves:
                    raise
        else:
            masters = {broker.broker for broker in brokers if broker.broker_id == MASTER_ID}
            slaves = [broker for broker in brokers if broker.broker not in masters]
        for slave in slaves:
            with contextlib.suppress(TransportError, BrokerError):
                found = await self._view(slave, log_offset, message_id, topic)
                if found.offset_message_id == message_id:
                    return found
        return None

    async def _view(self, broker: BrokerAt, log_offset: int, message_id: str, topic: str | None) -> StoredMessage:
        record = await self._access.api.view_message(broker.address, log_offset, topic=topic)
        messages, problem = to_messages(record, broker.broker)
        if problem is not None or not messages:
            raise QueryNotFound(f"broker {broker.broker} has no message {message_id}: {problem or 'nothing'}")
        return messages[0]

    async def _topics(self) -> list[str]:
        """Return the topics of users."""
        reply = await self._access.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        names = sorted(name for name in decode_body(reply.body, TopicList).topic_list if kind_of(name) == "normal")
        if len(names) > TOPICS_SEARCHED_MAX:
            raise InvalidParameter(f"there are {len(names)} topics, too many to look through: say the topic (--topic)")
        return names

    async def _by_unique_key(self, message_id: str, topics: list[str]) -> StoredMessage | None:
        """Return the newest message of *topics* with this id of its producer."""
        found = await each(topics, lambda topic: self._of_topic(message_id, topic, alone=len(topics) == 1))
        newest = [messages[-1] for messages in found if messages]
        return max(newest, key=lambda message: message.store_timestamp_ms, default=None)

    async def _of_topic(self, message_id: str, topic: str, *, alone: bool) -> list[StoredMessage]:
        try:
            return await self.query(topic, message_id, count=UNIQUE_MAX, by_unique_key=True)
        except BrokerError:
            if alone:
                raise
            return []  # deleted since it was listed, or on no reachable broker

    async def at(self, topic: str, broker: str, queue_id: int, offset: int) -> StoredMessage:
        """Return the message at this offset."""
        queue = MessageQueue(topic, broker, queue_id)
        if queue not in (await self._access.route(topic)).read_queues:
            raise InvalidParameter(f"topic {topic} has no queue {queue_id} on {broker}: see topic route")
        pulling = Pulling(self._access.core, TOOLS_GROUP, tells_subscription=True)
        found = await pulling.pull(queue, offset, subscription_data(topic, ALL, 0), count=1, hold_s=0)
        if not found.messages or found.messages[0].queue_offset != offset:
            raise QueryNotFound(
                f"queue {queue_id} of {broker} has no message at {offset} of topic {topic}: it has those from"
                f" {found.min_offset} up to, but without, {found.max_offset}"
            )
        return found.messages[0]

    async def query(
        self,
        topic: str,
        key: str,
        *,
        from_ms: int = 0,
        until_ms: int = EVER_MS,
        count: int = 64,
        by_unique_key: bool = False,
    ) -> list[StoredMessage]:
        """Return the messages of a topic with this key, by store time; at most *count* of each broker."""
        header = QueryMessageHeader(
            topic=topic,
            key=key,
            max_num=count,
            begin_timestamp=from_ms,
            end_timestamp=until_ms,
            by_unique_key=by_unique_key or None,
        )

        async def ask(broker: BrokerAt) -> list[StoredMessage]:
            records = await self._access.api.query_message(broker.address, header, timeout=self._access.seconds * 2)
            messages, problem = to_messages(records, broker.broker)
            if problem is not None:
                raise problem
            return messages

        found = [message for part in await each(await self._access.topic_readers(topic), ask) for message in part]
        # Brokers find keys by their hash codes.
        if by_unique_key:
            found = [message for message in found if message.message_id == key]
        else:
            found = [message for message in found if key in message.keys or message.message_id == key]
        return sorted(
            (message for message in found if message.topic == topic), key=lambda each: each.store_timestamp_ms
        )

    async def read(self, topic: str, chosen: Range | None = None) -> AsyncGenerator[StoredMessage, None]:
        """Read the messages of a topic, queue by queue, up to the current end of each."""
        chosen = chosen or Range()
        route = await self._access.route(topic)
        queues = [queue for queue in route.read_queues if chosen.has(queue)]
        if not queues:
            raise InvalidParameter(f"topic {topic} has no such queue: see topic route")
        for queue in queues:
            start = await self._queues.start_offset(queue, chosen.from_ms)
            async for message in self.read_queue(queue, start, tags=chosen.tags):
                if chosen.until_ms is not None and message.store_timestamp_ms >= chosen.until_ms:
                    break
                if message.store_timestamp_ms >= (chosen.from_ms or 0):
                    yield message

    async def read_queue(
        self, queue: MessageQueue, offset: int, *, tags: str = ALL
    ) -> AsyncGenerator[StoredMessage, None]:
        """Read the messages of a queue from *offset* up to its current end."""
        end = await self._access.api.get_max_offset(await self._queues.reading_address(queue), queue)
        pulling = Pulling(self._access.core, TOOLS_GROUP, tells_subscription=True)
        subscription = subscription_data(queue.topic, tags, 0)
        while offset < end:
            found = await pulling.pull(queue, offset, subscription, hold_s=0)
            for message in found.messages:
                yield message
            stuck = found.next_offset <= offset
            if stuck or found.status is PullStatus.NO_NEW_MESSAGE:
                return
            offset = found.next_offset

    async def trace(self, message_id: str, trace_topic: str = TRACE_TOPIC) -> list[TraceEvent]:
        """Return the trace of a message, by its id or a key, in the order of time; as far as clients traced it."""
        found = await self.query(trace_topic, message_id)
        events = [event for message in found for event in parse_trace(message.body.decode(errors="replace"))]
        wanted = {event for event in events if message_id in (event.message_id, *(event.keys or "").split())}
        if not wanted:
            raise QueryNotFound(f"topic {trace_topic} has no trace of {message_id}: do its clients trace?")
        return sorted(wanted, key=lambda event: (event.time, event.event))

    async def consume_directly(
        self, group: str, message_id: str, *, topic: str | None = None, client_id: str | None = None
    ) -> DirectConsumption:
        """Deliver a message to a member of a group, any or this one, and return the listener's result."""
        message = await self.get(message_id, topic)
        members = (await self._groups.members(group)).members
        member = next((each for each in members if client_id in (None, each.client_id)), None)
        if member is None:
            raise InvalidParameter(f"group {group} has no member {client_id or ''} online: see group members")
        brokers = {broker.broker: broker for broker in await self._access.masters()}
        if message.broker_name not in brokers:
            raise ConnectError(
                f"message {message_id} is on {message.broker_name}, which has no master now, only slaves: they deliver"
                " nothing directly"
            )
        header = ConsumeMessageDirectlyHeader(
            consumer_group=group,
            client_id=member.client_id,
            msg_id=message.offset_message_id,
            broker_name=message.broker_name,
            topic=message.topic,
        )
        reply = await self._access.ask(
            brokers[message.broker_name], RequestCode.CONSUME_MESSAGE_DIRECTLY, header, seconds=DIRECT_SECONDS
        )
        done = decode_body(reply.body, ConsumeMessageDirectlyResult)
        return DirectConsumption(
            group=group,
            client_id=member.client_id,
            message_id=message.message_id,
            result=done.consume_result or "",
            remark=done.remark,
            spent_ms=done.spent_time_mills,
        )


def parse_trace(text: str) -> list[TraceEvent]:
    """Decode the events in a trace message; see `hanabi.client.observe.trace_data` for the format. Unknown lines are
    skipped: newer clients may write some.
    """
    events: list[TraceEvent] = []
    for line in text.split("\x02"):
        kind, *fields = (None if field == "null" else field for field in line.split("\x01"))
        try:
            event = _event(kind or "", fields)
        except (IndexError, ValueError, TypeError):
            continue
        if event is not None:
            events.append(event)
    return events


def _event(kind: str, fields: list[str | None]) -> TraceEvent | None:
    if kind == "Pub":
        time, _, group, topic, message_id, tags, keys, store_host, _, cost = fields[:10]
        success = fields[12] if len(fields) >= 13 else fields[11]
        return TraceEvent(
            event=kind,
            time=_number(time),
            group=group,
            topic=topic,
            message_id=message_id or "",
            tags=tags,
            keys=keys,
            store_host=store_host,
            cost_ms=_number(cost),
            success=success == "true",
        )
    if kind == "SubBefore":
        time, _, group, request_id, message_id, retries, keys = fields[:7]
        return TraceEvent(
            event=kind,
            time=_number(time),
            group=group,
            message_id=message_id or "",
            keys=keys,
            retries=_number(retries),
            request_id=request_id,
        )
    if kind == "SubAfter":
        request_id, message_id, cost, success, keys = fields[:5]
        has_time = len(fields) >= 8
        return TraceEvent(
            event=kind,
            time=_number(fields[6]) if has_time else 0,
            group=fields[7] if has_time else None,
            message_id=message_id or "",
            keys=keys,
            cost_ms=_number(cost),
            success=success == "true",
            request_id=request_id,
        )
    if kind == "EndTransaction":
        time, _, group, topic, message_id, tags, keys, store_host, _, _, state = fields[:11]
        return TraceEvent(
            event=kind,
            time=_number(time),
            group=group,
            topic=topic,
            message_id=message_id or "",
            tags=tags,
            keys=keys,
            store_host=store_host,
            state=state,
        )
    return None


def _number(text: str | None) -> int:
    return int(text or 0)
