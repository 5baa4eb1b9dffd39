"""Acknowledgements of POP: one (200051), many (200151), and another invisible time (200053).

A message that was acknowledged before, or that has expired, is acknowledged with success and without effect, as in
AckMessageProcessor and ChangeInvisibleTimeProcessor (5.3.3). Two differences: a receipt of another broker is refused,
as its offset means another message here; and a message that is not in flight any more gets no other invisible time
(Apache answers with success, and delivers it once more).
"""

from typing import Final

from hanabi.broker.handlers.pop.messages import PopAccess
from hanabi.broker.pop.service import PopService
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import COPIES_ONLY
from hanabi.store.read.queue_reader import QueueReader
from hanabi.wire.bodies.pop import BatchAck, BatchAckRequest
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.v5.pop import AckMessageHeader, ChangeInvisibleTimeHeader, ChangeInvisibleTimeReplyHeader
from hanabi.wire.receipts import NORMAL, ORDERED_QUEUE, Receipt, decode_receipt, real_topic

BODY_BYTES_MAX: Final = 1024  # neither acknowledgements of one message nor changes have a body
BATCH_BYTES_MAX: Final = 256 * 1024
_SEE: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


def pop_ack_handlers(
    service: PopService, access: PopAccess, reader: QueueReader, topics: Topics, settings: Settings
) -> dict[int, Handler]:
    """Return the handlers of acknowledgements."""
    acks = PopAcks(service, access, reader, topics, settings)
    return {
        RequestCode.ACK_MESSAGE: Handler(AckMessageHeader, acks.one, BODY_BYTES_MAX),
        RequestCode.BATCH_ACK_MESSAGE: Handler(NoHeader, acks.many, BATCH_BYTES_MAX),
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Handler(ChangeInvisibleTimeHeader, acks.change, BODY_BYTES_MAX),
    }


class PopAcks:
    """Handler of acknowledgements."""

    def __init__(
        self, service: PopService, access: PopAccess, reader: QueueReader, topics: Topics, settings: Settings
    ) -> None:
        self._service, self._access, self._reader = service, access, reader
        self._topics, self._settings = topics, settings

    def one(self, ack: AckMessageHeader, _request: Command, connection: Connection) -> Reply:
        """Acknowledge one message."""
        refusal = self._refusal(ack, connection.peer)
        if refusal is not None:
            return refusal
        receipt = decode_receipt(ack.extra_info)
        if (stranger := self._stranger(receipt)) is not None:
            return stranger
        place = ack.consumer_group, ack.topic, ack.queue_id
        if not receipt.is_ordered:
            self._service.acknowledge(*place, (ack.offset,))
        elif not self._service.acknowledge_ordered(*place, ack.offset, receipt.pop_ms):
            return Reply(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{ack.topic}@{ack.consumer_group}@{ack.queue_id}, commit:{ack.offset}:"
                " the last pop of this queue did not include it",
            )
        return Reply()

    def many(self, _header: NoHeader, request: Command, _connection: Connection) -> Reply:
        """Acknowledge the messages of several pops. Those of other topics or brokers are skipped, as in Apache."""
        if self._settings.is_slave:
            return Reply(ResponseCode.SYSTEM_ERROR, COPIES_ONLY)
        acks = decode_body(request.body, BatchAckRequest) if request.body else BatchAckRequest()
        if not acks.acks:
            return Reply(ResponseCode.NO_MESSAGE, "there is no acknowledgement in this request")
        if acks.broker_name is None or acks.broker_name == self._settings.broker.broker_name:
            for ack in acks.acks:
                self._batch(ack)
        return Reply()

    def _batch(self, ack: BatchAck) -> None:
        topic = real_topic(ack.topic, ack.consumer_group, ack.retry or NORMAL)
        place = ack.consumer_group, topic, ack.queue_id
        if ack.revive_queue_id != ORDERED_QUEUE:
            self._service.acknowledge_bits(*place, ack.start_offset, ack.offsets)
            return
        for bit in range(min(8 * len(ack.offsets), 64)):  # an ordered pop has no more
            if ack.offsets[bit >> 3] >> (bit & 7) & 1:
                self._service.acknowledge_ordered(*place, ack.start_offset + bit, ack.pop_time)

    def change(self, asked: ChangeInvisibleTimeHeader, _request: Command, connection: Connection) -> Reply:
        """Hide a message for longer, or for less."""
        refusal = self._refusal(asked, connection.peer, is_end_allowed=False)
        if refusal is not None:
            return refusal
        if (why := self._access.invisible_fault(asked.invisible_time)) is not None:
            return Reply(ResponseCode.INVALID_PARAMETER, why)
        receipt = decode_receipt(asked.extra_info)
        if (stranger := self._stranger(receipt)) is not None:
            return stranger
        change = self._service.change_ordered if receipt.is_ordered else self._service.change
        renewed = change(
            *(asked.consumer_group, asked.topic, asked.queue_id, receipt, asked.offset, asked.invisible_time)
        )
        if renewed is None:
            return Reply(
                ResponseCode.NO_MESSAGE,
                f"message {asked.offset} of {asked.topic}/{asked.queue_id} is not in flight: it was acknowledged, or"
                " its invisible time has ended",
            )
        return Reply(
            header=ChangeInvisibleTimeReplyHeader(
                pop_time=renewed.pop_ms, invisible_time=renewed.invisible_ms, revive_qid=renewed.revive_queue_id
            )
        )

    def _refusal(
        self, named: AckMessageHeader | ChangeInvisibleTimeHeader, peer: str, *, is_end_allowed: bool = True
    ) -> Reply | None:
        """Return the reply that refuses a topic, queue or offset that is not there; None if it is."""
        if self._settings.is_slave:
            return Reply(ResponseCode.SYSTEM_ERROR, COPIES_ONLY)
        topic, queue_id = named.topic, named.queue_id
        config = self._topics.find(topic)
        if config is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {_SEE}")
        if not 0 <= queue_id < config.read_queue_nums:
            return Reply(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{config.read_queue_nums}]"
                f" consumer:[{peer}]",
            )
        low, high = self._reader.min_offset(topic, queue_id), self._reader.max_offset(topic, queue_id)
        if low <= named.offset < high + is_end_allowed:
            return None
        return Reply(
            ResponseCode.NO_MESSAGE,
            f"offset is illegal, key:{topic}@{queue_id}, commit:{named.offset}, store:{low}~{high}",
        )

    def _stranger(self, receipt: Receipt) -> Reply | None:
        """Return the reply that refuses a receipt of another broker; None if it is ours."""
        own = self._settings.broker.broker_name
        if receipt.broker_name == own:
            return None
        return Reply(
            ResponseCode.MESSAGE_ILLEGAL,
            f"this receipt is of broker {receipt.broker_name[:64]}, not of {own}: send it there",
        )
