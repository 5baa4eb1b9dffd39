"""Requests of brokers to a client, on the connection that the client opened: a table from request code to handler.

Finds the producer or consumer by its group and calls it. Agrees with Java's ClientRemotingProcessor. One-way requests
are handled in the background: a broker does not wait for them.
"""

import logging
import sys
import traceback
from collections.abc import Coroutine
from threading import enumerate as all_threads
from typing import Any, Final, Protocol

import msgspec

from hanabi.client.cluster.members import ConsumerMember, Members
from hanabi.errors import BrokerError, MQError, RemoteProtocolError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.offsets import ConsumerStatus, ResetOffset, ResetOffsetList
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.client import (
    ConsumeMessageDirectlyHeader,
    GetConsumerRunningInfoHeader,
    NotifyConsumerIdsChangedHeader,
)
from hanabi.wire.headers.offset import GetConsumerStatusHeader, ResetOffsetHeader
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message

# Version that `wire.command.VERSION` denotes. High enough for everything that brokers of both lines reserve for newer
# clients; one above V5_3_1 would promise support of GO_AWAY.
CLIENT_VERSION: Final = "V4_9_8"
NAMESERVER_PROPERTY: Final = "PROP_NAMESERVER_ADDR"
CONSUME_TYPE_PROPERTY: Final = "PROP_CONSUME_TYPE"
CLIENT_VERSION_PROPERTY: Final = "PROP_CLIENT_VERSION"

logger = logging.getLogger(__name__)


class Spawn(Protocol):
    """Starts a background task whose end is managed elsewhere."""

    def __call__(self, work: Coroutine[Any, Any, object], name: str) -> None: ...


class BrokerRequests:
    """Client side of brokers' requests."""

    def __init__(self, members: Members, spawn: Spawn, *, namesrv: tuple[str, ...]) -> None:
        self._members, self._spawn, self._namesrv = members, spawn, namesrv

    def handlers(self) -> dict[int, Handler]:
        """Return the handler of each request code."""
        return {
            RequestCode.CHECK_TRANSACTION_STATE: Handler(CheckTransactionStateHeader, self.check_transaction),
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Handler(NotifyConsumerIdsChangedHeader, self.members_changed),
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: Handler(ResetOffsetHeader, self.reset_offsets),
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Handler(GetConsumerStatusHeader, self.consumer_status),
            RequestCode.GET_CONSUMER_RUNNING_INFO: Handler(GetConsumerRunningInfoHeader, self.running_info),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: Handler(ConsumeMessageDirectlyHeader, self.consume_directly),
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Handler(ReplyMessageHeader, self.reply_arrived),
        }

    def check_transaction(self, header: CheckTransactionStateHeader, request: Command, connection: Connection) -> Reply:
        message = to_message(decode_record(request.body))
        group = message.properties.get(names.PRODUCER_GROUP, "")
        if not self._members.producers_of(group):
            raise BrokerError(f"no producer of group {group!r} here")
        self._spawn(self._check(group, header, message, connection.peer), f"check transaction {message.message_id}")
        return Reply()

    async def _check(
        self, group: str, header: CheckTransactionStateHeader, message: StoredMessage, address: str
    ) -> None:
        for producer in self._members.producers_of(group):
            if await producer.check_transaction(header, message, address):
                return
        logger.warning("%s asks group %s for the state of a transaction that no producer here knows", address, group)

    def members_changed(self, header: NotifyConsumerIdsChangedHeader, _: Command, connection: Connection) -> Reply:
        consumer = self._members.consumers.get(header.consumer_group)
        if consumer is not None:
            logger.debug("%s: members of group %s changed", connection.peer, header.consumer_group)
            consumer.rebalance_soon()
        return Reply()

    def reset_offsets(self, header: ResetOffsetHeader, request: Command, connection: Connection) -> Reply:
        consumer = self._consumer(header.group)
        offsets = _offset_table(request.body)
        logger.info(
            "%s sets %d queues of topic %s, group %s, to other offsets",
            connection.peer,
            len(offsets),
            header.topic,
            header.group,
        )
        self._spawn(consumer.reset_offsets(header.topic, offsets), f"reset offsets of {header.group}")
        return Reply()

    def consumer_status(self, header: GetConsumerStatusHeader, _: Command, __: Connection) -> Reply:
        held = self._consumer(header.group).consumer_status(header.topic)
        return Reply(body=encode_body(ConsumerStatus(message_queue_table=dict(held))))

    async def running_info(self, header: GetConsumerRunningInfoHeader, _: Command, __: Connection) -> Reply:
        consumer = self._consumer(header.consumer_group)
        info = await consumer.running_info()
        told = {
            NAMESERVER_PROPERTY: "".join(f"{address};" for address in self._namesrv),
            CONSUME_TYPE_PROPERTY: str(consumer.heartbeat_data().consume_type),
            CLIENT_VERSION_PROPERTY: CLIENT_VERSION,
        }
        info = msgspec.structs.replace(
            info,
            properties={**info.properties, **told},
            jstack=thread_stacks() if header.jstack_enable else info.jstack,
        )
        return Reply(body=encode_body(info))

    async def consume_directly(self, header: ConsumeMessageDirectlyHeader, request: Command, _: Connection) -> Reply:
        consumer = self._consumer(header.consumer_group)
        message = to_message(decode_record(request.body), broker_name=header.broker_name or "")
        return Reply(body=encode_body(await consumer.consume_directly(message)))

    def reply_arrived(self, header: ReplyMessageHeader, request: Command, connection: Connection) -> Reply:
        # The header's group is the replier's; only the pending request identifies the requester.
        if not any(producer.reply_arrived(header, request.body) for producer in self._members.all_producers()):
            logger.warning(
                "%s delivered a reply that no request waits for any more: %s", connection.peer, header.properties
            )
        return Reply()

    def _consumer(self, group: str) -> ConsumerMember:
        consumer = self._members.consumers.get(group)
        if consumer is None:
            raise MQError(f"The Consumer Group <{group}> not exist in this consumer")  # Apache's words
        return consumer


def _offset_table(body: bytes) -> dict[MessageQueue, int]:
    """Return the queues and their offsets, in the format of Java's or of C++'s clients."""
    if not body:
        return {}
    try:
        return decode_body(body, ResetOffset).offset_table
    except RemoteProtocolError:
        from_list = decode_body(body, ResetOffsetList).offset_table
        return {MessageQueue(entry.topic, entry.broker_name, entry.queue_id): entry.offset for entry in from_list}


def thread_stacks() -> str:
    """Return the stacks of all threads of this process, as Java's jstack."""
    threads = {thread.ident: thread.name for thread in all_threads()}
    return "\n".join(
        f"{threads.get(number, 'unknown')} TID: {number}\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    )
