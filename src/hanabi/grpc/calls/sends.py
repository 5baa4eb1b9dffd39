"""SendMessage: each message is checked, gets its queue, and is stored as one of remoting."""

from collections.abc import Awaitable
from itertools import count
from typing import Any

from hanabi.errors import MQError
from hanabi.grpc.backend.backend import Backend, BrokerQueues, TopicFacts, fields_of
from hanabi.grpc.calls.routes import resolved
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import set_status, topic_name
from hanabi.grpc.calls.support.sessions import Sessions
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import Code, MessageType
from hanabi.grpc.rules import messages as rules
from hanabi.grpc.rules.durations import milliseconds
from hanabi.grpc.rules.faults import CallRefused, code_of, fault_of
from hanabi.grpc.rules.handles import Transaction
from hanabi.grpc.rules.queue_choice import queue_of_group
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message import sysflag
from hanabi.wire.message.message_id import decode_offset_id

_DEFAULT_TOPIC = ""  # topics are not created by a send


class Sends:
    """Handler of sends."""

    def __init__(self, backend: Backend, door: Doorkeeper, sessions: Sessions) -> None:
        self._backend, self._door, self._sessions = backend, door, sessions
        self._turns = count()

    async def send(self, request: Proto, context: CallContext) -> Proto:
        """Store all messages of one topic; each has its result."""
        client_id = context.client_id
        messages = request.messages
        if not messages or len(messages) > rules.MESSAGES_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"{len(messages)} messages in one call, not 1 to {rules.MESSAGES_MAX}")
        topic = topic_name(messages[0].topic)
        if len(messages) > 1 and any(topic_name(each.topic) != topic for each in messages):
            raise CallRefused(Code.BAD_REQUEST, "the messages of one call must have the same topic")
        self._door.check(context, RequestCode.SEND_MESSAGE_V2, (topic,))
        facts = await resolved(self._backend.topic(topic))
        if facts is None:
            raise CallRefused(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}: create it first")
        prepared, size = [], 0
        for message in messages:
            prepared.append(self._prepared(message, topic, facts, context))
            size += len(prepared[-1][2])
            if size > rules.CALL_BYTES_MAX:
                raise CallRefused(
                    Code.MESSAGE_BODY_TOO_LARGE, f"message bodies of one call of more than {rules.CALL_BYTES_MAX} bytes"
                )
        reply = message_class("SendMessageResponse")()
        for message, (broker, header, body) in zip(messages, prepared, strict=True):
            kind = rules.type_of(message)
            if kind is MessageType.TRANSACTION:
                await self._sessions.produces(client_id, topic)
            await self._store(reply.entries.add(), message, kind, broker, header, body, context)
        _sum_up(reply)
        return reply

    def _prepared(
        self, message: Any, topic: str, facts: TopicFacts, context: CallContext
    ) -> tuple[str, SendMessageV2Header, bytes]:
        kind = rules.type_of(message)
        body = rules.body_of(message)
        client_host, _ = parse_address(context.peer.peer)
        properties = rules.properties_of(message, topic, client_host)
        if kind not in rules.accepted_types(facts.message_type):
            raise CallRefused(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"topic {topic} takes messages of type {facts.message_type}, this one is {kind.name}",
            )
        system = message.system_properties
        if kind is MessageType.DELAY:
            deliver_ms = milliseconds(system.delivery_timestamp)
            rules.check_delivery(deliver_ms, self._backend.now_ms(), self._backend.delay_ms_max())
        broker, queue_id = self._place(facts, system.message_group if system.HasField("message_group") else None)
        is_half = kind is MessageType.TRANSACTION
        header = SendMessageV2Header(
            producer_group=topic,
            topic=topic,
            default_topic=_DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=sysflag.TRANSACTION_PREPARED if is_half else 0,
            born_timestamp=milliseconds(system.born_timestamp) or self._backend.now_ms(),
            flag=0,
            properties=rules.text_of(properties),
            reconsume_times=0,
        )
        return broker, header, body

    def _place(self, facts: TopicFacts, message_group: str | None) -> tuple[str, int]:
        """Return broker and queue of one message."""
        queues = sum(broker.writable for broker in facts.brokers)
        if not queues:
            raise CallRefused(Code.FORBIDDEN, "the topic has no queue that can be written")
        if message_group is not None:
            return _at(facts.brokers, queue_of_group(message_group, queues))
        return _at(facts.brokers, next(self._turns) % queues)

    async def _store(
        self,
        entry: Any,
        message: Any,
        kind: MessageType,
        broker: str,
        header: SendMessageV2Header,
        body: bytes,
        context: CallContext,
    ) -> None:
        entry.message_id = message.system_properties.message_id
        try:
            answer = self._backend.ask(broker, RequestCode.SEND_MESSAGE_V2, header, body, context.peer)
            reply = await answer if isinstance(answer, Awaitable) else answer
        except MQError as error:
            set_status(entry.status, *fault_of(error))
            return
        code = _send_code(reply)
        set_status(entry.status, code, "OK" if code is Code.OK else reply.remark or code.name)
        fields = fields_of(reply)
        if "msgId" not in fields or "queueOffset" not in fields:
            return
        entry.offset = int(fields["queueOffset"])
        entry.recall_handle = fields.get("recallHandle", "")
        if kind is MessageType.TRANSACTION and code is Code.OK:
            log_offset = decode_offset_id(fields["msgId"]).log_offset
            entry.transaction_id = Transaction(broker, entry.offset, log_offset, entry.message_id).encode()


def _send_code(reply: Reply) -> Code:
    return Code.BAD_REQUEST if reply.code == ResponseCode.MESSAGE_ILLEGAL else code_of(reply.code)


def _at(brokers: tuple[BrokerQueues, ...], place: int) -> tuple[str, int]:
    for broker in brokers:
        if place < broker.writable:
            return broker.broker_name, place
        place -= broker.writable
    raise CallRefused(Code.FORBIDDEN, "the topic has no queue that can be written")


def _sum_up(reply: Proto) -> None:
    """Set the status of the whole reply."""
    codes = {entry.status.code for entry in reply.entries}
    if len(codes) == 1:
        set_status(reply.status, Code(codes.pop()), reply.entries[0].status.message)
    else:
        set_status(reply.status, Code.MULTIPLE_RESULTS, "the messages have different results")
