"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: the end of a delivery."""

from collections.abc import Awaitable
from typing import Any

from hanabi.errors import MQError
from hanabi.grpc.backend.backend import Backend, fields_of
from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import group_name, set_status, topic_name
from hanabi.grpc.calls.support.renewals import Renewals
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.durations import invisible_ms, milliseconds
from hanabi.grpc.rules.faults import CallRefused, code_of, fault_of
from hanabi.grpc.rules.handles import Handle, valid_handle
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.header import Header
from hanabi.wire.headers.query import ViewMessageHeader
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader
from hanabi.wire.headers.v5.pop import AckMessageHeader, ChangeInvisibleTimeHeader
from hanabi.wire.message.record import decode_record
from hanabi.wire.receipts import Receipt, real_topic

ENTRIES_MAX = 1_024  # of one call
_TO_DEAD_LETTERS = -1  # as a delay level


class Acks:
    """Handlers of everything that ends a delivery."""

    def __init__(self, backend: Backend, door: Doorkeeper, renewals: Renewals) -> None:
        self._backend, self._door, self._renewals = backend, door, renewals

    async def acknowledge(self, request: Proto, context: CallContext) -> Proto:
        """Acknowledge messages; each has its result."""
        client_id = context.client_id
        topic, group = topic_name(request.topic), group_name(request.group)
        self._door.check(context, RequestCode.ACK_MESSAGE, (topic,), (group,))
        if not request.entries or len(request.entries) > ENTRIES_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"{len(request.entries)} entries, not 1 to {ENTRIES_MAX}")
        reply = message_class("AckMessageResponse")()
        for entry in request.entries:
            result = reply.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle)
            try:
                handle = self._handle(client_id, entry.receipt_handle)
                await self._acknowledge(group, topic, handle, context.peer)
                self._renewals.end(client_id, entry.receipt_handle)
            except MQError as error:
                set_status(result.status, *fault_of(error))
            else:
                set_status(result.status)
        _sum_up(reply)
        return reply

    async def _acknowledge(self, group: str, topic: str, handle: Handle, peer: Peer) -> None:
        receipt = handle.receipt
        header = AckMessageHeader(
            consumer_group=group,
            topic=real_topic(topic, group, receipt.mark),
            queue_id=receipt.queue_id,
            extra_info=receipt.encode(),
            offset=receipt.offset,
        )
        await self._ask(receipt.broker_name, RequestCode.ACK_MESSAGE, header, peer)

    async def change(self, request: Proto, context: CallContext) -> Proto:
        """Hide a message for longer, or for less; return its new handle."""
        client_id = context.client_id
        topic, group = topic_name(request.topic), group_name(request.group)
        self._door.check(context, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, (topic,), (group,))
        ms = invisible_ms(milliseconds(request.invisible_duration), 0)
        handle = self._handle(client_id, request.receipt_handle)
        renewed = await self.hide(group, topic, handle, ms, context.peer)
        self._renewals.end(client_id, request.receipt_handle)
        reply = message_class("ChangeInvisibleDurationResponse")(receipt_handle=renewed.encode())
        set_status(reply.status)
        return reply

    async def hide(self, group: str, topic: str, handle: Handle, ms: int, peer: Peer) -> Handle:
        """Hide a message for *ms* from now on; return its new handle."""
        receipt = handle.receipt
        header = ChangeInvisibleTimeHeader(
            consumer_group=group,
            topic=real_topic(topic, group, receipt.mark),
            queue_id=receipt.queue_id,
            extra_info=receipt.encode(),
            offset=receipt.offset,
            invisible_time=ms,
        )
        reply = await self._ask(receipt.broker_name, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, peer)
        fields = fields_of(reply)
        renewed = Receipt(
            *(receipt.start_offset, int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"])),
            *(receipt.mark, receipt.broker_name, receipt.queue_id, receipt.offset),
        )
        return Handle(renewed, handle.log_offset)

    async def forward(self, request: Proto, context: CallContext) -> Proto:
        """Move a message to the dead letters of its group."""
        client_id = context.client_id
        topic, group = topic_name(request.topic), group_name(request.group)
        self._door.check(context, RequestCode.CONSUMER_SEND_MSG_BACK, (topic,), (group,))
        handle = self._handle(client_id, request.receipt_handle)
        await self._check_place(group, topic, handle, context.peer)
        await self.to_dead_letters(group, topic, handle, context.peer)
        self._renewals.end(client_id, request.receipt_handle)
        reply = message_class("ForwardMessageToDeadLetterQueueResponse")()
        set_status(reply.status)
        return reply

    async def _check_place(self, group: str, topic: str, handle: Handle, peer: Peer) -> None:
        """Refuse a handle whose ninth word is not the place of its message: a client could copy any message."""
        header, receipt = ViewMessageHeader(offset=handle.log_offset), handle.receipt
        reply = await self._ask(receipt.broker_name, RequestCode.VIEW_MESSAGE_BY_ID, header, peer)
        body = reply.body
        record = decode_record(b"".join(body) if isinstance(body, list) else body)
        place = record.topic, record.queue_id, record.queue_offset
        if place != (real_topic(topic, group, receipt.mark), receipt.queue_id, receipt.offset):
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle names another message")

    async def to_dead_letters(self, group: str, topic: str, handle: Handle, peer: Peer) -> None:
        """Store a message as a dead letter of *group*, then acknowledge it."""
        if handle.log_offset < 0:
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle does not say where the message lies")
        header = ConsumerSendMsgBackHeader(
            offset=handle.log_offset,
            group=group,
            delay_level=_TO_DEAD_LETTERS,
            origin_topic=topic,
            max_reconsume_times=0,
        )
        await self._ask(handle.receipt.broker_name, RequestCode.CONSUMER_SEND_MSG_BACK, header, peer)
        await self._acknowledge(group, topic, handle, peer)

    def _handle(self, client_id: str, text: str) -> Handle:
        """Return the handle of a message that is still hidden; of one that is renewed the newest."""
        renewed = self._renewals.newest(client_id, text)
        return renewed if renewed is not None else valid_handle(text, self._backend.now_ms())

    async def _ask(self, broker_name: str, code: int, header: Header, peer: Peer) -> Reply:
        answer = self._backend.ask(broker_name, code, header, b"", peer)
        reply = await answer if isinstance(answer, Awaitable) else answer
        if reply.code != ResponseCode.SUCCESS:
            refused = code_of(reply.code)
            if reply.code == ResponseCode.MESSAGE_ILLEGAL:
                refused = Code.INVALID_RECEIPT_HANDLE
            raise CallRefused(refused, reply.remark or refused.name)
        return reply


def _sum_up(reply: Any) -> None:
    codes = {entry.status.code for entry in reply.entries}
    if len(codes) == 1:
        set_status(reply.status, Code(codes.pop()), reply.entries[0].status.message)
    else:
        set_status(reply.status, Code.MULTIPLE_RESULTS, "the entries have different results")
