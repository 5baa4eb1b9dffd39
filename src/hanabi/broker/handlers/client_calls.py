"""Operators' requests that involve clients: 222, 223, 307 and 309.

The handlers look up the offsets or the message that a request needs; `clients/client_calls.py` calls the clients. Codes
and remarks are those of Java's AdminBrokerProcessor.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from hanabi.broker.clients.client import language_name
from hanabi.broker.clients.client_calls import ClientCalls
from hanabi.broker.offsets.offset_reset import OffsetReset, is_for_one_queue
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.offsets import ResetOffset
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.client import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from hanabi.wire.headers.offset import GetConsumerStatusHeader, ResetOffsetHeader
from hanabi.wire.message.message_id import decode_offset_id

NO_BODY_BYTES_MAX = 4 * 1024

logger = logging.getLogger(__name__)


class ResettableOffsets(Protocol):
    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the group's offset to *offset*, also backwards."""


def client_call_handlers(
    calls: ClientCalls,
    plans: OffsetReset,
    offsets: ResettableOffsets,
    record: Callable[[int], memoryview | None],
    topics: Topics,
    groups: Groups,
    settings: Settings,
) -> dict[int, Handler]:
    """Return the handlers by request code. *record* is a store's `queries.record`."""
    resets = ResetHandlers(calls, plans, offsets, settings)
    questions = QuestionHandlers(calls, record, topics, groups, settings)
    return {
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Handler(ResetOffsetHeader, resets.reset, NO_BODY_BYTES_MAX),
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Handler(
            GetConsumerStatusHeader, questions.status, NO_BODY_BYTES_MAX
        ),
        RequestCode.GET_CONSUMER_RUNNING_INFO: Handler(
            GetConsumerRunningInfoHeader, questions.running_info, NO_BODY_BYTES_MAX
        ),
        RequestCode.CONSUME_MESSAGE_DIRECTLY: Handler(
            ConsumeMessageDirectlyHeader, questions.consume_directly, NO_BODY_BYTES_MAX
        ),
    }


class ResetHandlers:
    """Offset resets. Besides notifying the members, as Java does, the broker's own table is set at once, so queues
    without an owner are reset too. The members commit the same offsets some ten seconds later."""

    def __init__(self, calls: ClientCalls, plans: OffsetReset, offsets: ResettableOffsets, settings: Settings) -> None:
        self._calls = calls
        self._plans = plans
        self._offsets = offsets
        self._settings = settings

    def reset(self, asked: ResetOffsetHeader, request: Command, connection: Connection) -> Reply:
        planned = self._plans.plan(asked)
        if not self._calls.is_online(asked.group) and not is_for_one_queue(asked):
            # Operators' tools then set the offsets themselves, one queue at a time.
            return Reply(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {asked.group} Topic: {asked.topic}"
                f" Timestamp: {asked.timestamp}",
            )
        if (refusal := self._calls.why_not_reset(asked.group)) is not None:
            return refusal
        broker_name = self._settings.broker.broker_name
        table = {MessageQueue(asked.topic, broker_name, queue_id): offset for queue_id, offset in planned.items()}
        for queue_id, offset in planned.items():
            self._offsets.reset(asked.group, asked.topic, queue_id, offset)
        self._calls.send_reset(asked, table, language_name(request.language))
        logger.info("%s resets group %s in topic %s to %s", connection.peer, asked.group, asked.topic, planned)
        return Reply(body=encode_body(ResetOffset(offset_table=table)))


class QuestionHandlers:
    """Requests to one client or to all of a group, whose answers go back to the operator."""

    def __init__(
        self,
        calls: ClientCalls,
        record: Callable[[int], memoryview | None],
        topics: Topics,
        groups: Groups,
        settings: Settings,
    ) -> None:
        self._calls = calls
        self._record = record
        self._topics = topics
        self._groups = groups
        self._settings = settings

    def status(self, asked: GetConsumerStatusHeader, _: Command, connection: Connection) -> Awaitable[Reply]:
        return self._calls.consumer_status(asked)

    def running_info(self, asked: GetConsumerRunningInfoHeader, _: Command, connection: Connection) -> Awaitable[Reply]:
        return self._calls.forward(RequestCode.GET_CONSUMER_RUNNING_INFO, asked.consumer_group, asked.client_id, asked)

    def consume_directly(
        self, asked: ConsumeMessageDirectlyHeader, _: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        """Send the message to the client, with a header that describes this broker."""
        if asked.msg_id is None:
            return Reply(ResponseCode.SYSTEM_ERROR, "CONSUME_MESSAGE_DIRECTLY has no msgId")
        message = self._record(decode_offset_id(asked.msg_id).log_offset)
        if message is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"there is no message {asked.msg_id} in this broker")
        topic = self._topics.find(asked.topic) if asked.topic else None
        group = self._groups.known(asked.consumer_group)
        header = msgspec.structs.replace(
            asked,
            broker_name=self._settings.broker.broker_name,
            topic_sys_flag=topic.topic_sys_flag if topic is not None else asked.topic_sys_flag,
            group_sys_flag=group.group_sys_flag if group is not None else asked.group_sys_flag,
        )
        return self._calls.forward(
            RequestCode.CONSUME_MESSAGE_DIRECTLY, asked.consumer_group, asked.client_id, header, bytes(message)
        )
