"""Requests of POP to one broker: pop, notification, acknowledge, change the invisible time.

A received message carries its receipt in the property `POP_CK`, as with Java's client. Agrees with MQClientAPIImpl
(5.3.3): processPopResponse, ackMessageAsync, changeInvisibleTimeAsync.
"""

from typing import Final, NamedTuple

import msgspec

from hanabi.client.cluster.core import Core
from hanabi.errors import ConnectError, MQError, RemoteProtocolError
from hanabi.message import StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.v5.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeReplyHeader,
    NotificationHeader,
    NotificationReplyHeader,
    PopMessageHeader,
    PopMessageReplyHeader,
)
from hanabi.wire.message import property_names as names
from hanabi.wire.message.stored import to_messages
from hanabi.wire.receipts import (
    Receipt,
    decode_receipt,
    issued_receipt,
    mark_of,
    parse_order_counts,
    parse_start_offsets,
    real_topic,
)

ANSWER_S: Final = 10.0  # beyond the time for which a broker holds a request
ANY_QUEUE: Final = -1
_POPPED: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL})


class Place(NamedTuple):
    """A topic at one broker; the topic is named as on the wire."""

    topic: str
    broker_name: str


class Popping:
    """Requests of one consumer group."""

    def __init__(self, core: Core, group: str, *, ordered: bool, starts_at_oldest: bool) -> None:
        self._core, self._group, self._ordered = core, group, ordered
        self._init_mode = 0 if starts_at_oldest else 1

    async def places(self, topic: str) -> list[Place]:
        """Return the brokers that have readable queues of *topic*."""
        route = self._core.routes.known(topic) or await self._core.routes.find(topic, fresh=True)
        return [Place(topic, name) for name in dict.fromkeys(queue.broker_name for queue in route.read_queues)]

    async def pop(
        self,
        place: Place,
        subscription: SubscriptionData,
        *,
        count: int,
        invisible_ms: int,
        wait_ms: int,
        queue_id: int = ANY_QUEUE,
    ) -> list[StoredMessage]:
        """Return messages of one queue, or of any, hidden from the other members; the broker waits for one up to
        *wait_ms*."""
        header = PopMessageHeader(
            consumer_group=self._group,
            topic=place.topic,
            queue_id=queue_id,
            max_msg_nums=count,
            invisible_time=invisible_ms,
            poll_time=wait_ms,
            born_time=0,  # when it arrives: the clocks of two machines may differ
            init_mode=self._init_mode,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            order=self._ordered,
        )
        seconds = wait_ms / 1_000 + ANSWER_S
        address = await self._address(place)
        reply = await self._core.api.ask(address, RequestCode.POP_MESSAGE, header, timeout=seconds, accept=_POPPED)
        return received(reply, place) if reply.code == ResponseCode.SUCCESS else []

    async def has_messages(self, place: Place, *, wait_ms: int) -> bool:
        """Return whether a pop would find something, as soon as it would."""
        header = NotificationHeader(
            consumer_group=self._group,
            topic=place.topic,
            queue_id=ANY_QUEUE,
            poll_time=wait_ms,
            born_time=0,
            order=self._ordered,
        )
        address, seconds = await self._address(place), wait_ms / 1_000 + ANSWER_S
        reply = await self._core.api.ask(address, RequestCode.NOTIFICATION, header, timeout=seconds)
        return reply.header(NotificationReplyHeader).has_msg

    async def acknowledge(self, message: StoredMessage, topic: str) -> None:
        """Acknowledge *message* of *topic*."""
        receipt = receipt_of(message)
        header = AckMessageHeader(
            consumer_group=self._group,
            topic=real_topic(topic, self._group, receipt.mark),
            queue_id=receipt.queue_id,
            extra_info=receipt.encode(),
            offset=receipt.offset,
        )
        address = await self._address(Place(topic, receipt.broker_name))
        await self._core.api.ask(address, RequestCode.ACK_MESSAGE, header)

    async def change(self, message: StoredMessage, topic: str, invisible_ms: int) -> StoredMessage:
        """Hide *message* of *topic* for *invisible_ms* from now on; return it with its new receipt."""
        receipt = receipt_of(message)
        header = ChangeInvisibleTimeHeader(
            consumer_group=self._group,
            topic=real_topic(topic, self._group, receipt.mark),
            queue_id=receipt.queue_id,
            extra_info=receipt.encode(),
            offset=receipt.offset,
            invisible_time=invisible_ms,
        )
        address = await self._address(Place(topic, receipt.broker_name))
        reply = await self._core.api.ask(address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        changed = reply.header(ChangeInvisibleTimeReplyHeader)
        renewed = msgspec.structs.replace(
            receipt,
            pop_ms=changed.pop_time,
            invisible_ms=changed.invisible_time,
            revive_queue_id=changed.revive_qid,
        )
        return _with_receipt(message, message.topic, renewed.encode(), message.reconsume_times)

    async def _address(self, place: Place) -> str:
        routes = self._core.routes
        route = routes.known(place.topic)
        address = route.master_of(place.broker_name) if route is not None else None
        if address is None:
            address = (await routes.find(place.topic, fresh=True)).master_of(place.broker_name)
        if address is None:
            raise ConnectError(f"topic {place.topic}: the name servers know no master of broker {place.broker_name}")
        return address


def receipt_of(message: StoredMessage) -> Receipt:
    """Return the receipt of a received message."""
    text = message.properties.get(names.POP_CK)
    if text is None:
        raise MQError(f"message {message.message_id} has no receipt: it was not returned by receive()")
    receipt = decode_receipt(text)
    if receipt.queue_id < 0 or receipt.offset < 0:
        raise RemoteProtocolError(f"receipt {text[:80]!r} names no message")
    return receipt


def received(reply: Command, place: Place) -> list[StoredMessage]:
    """Return the messages of a pop's *reply*, each with its receipt and under the topic that was asked for."""
    header = reply.header(PopMessageReplyHeader)
    messages, error = to_messages(reply.body, place.broker_name)
    if error is not None and not messages:
        raise error  # those behind it come again when their invisible time has ended
    starts = parse_start_offsets(header.start_offset_info)
    counts = parse_order_counts(header.order_count_info)
    return [_received(message, header, starts, counts, place) for message in messages]


def _received(
    message: StoredMessage,
    header: PopMessageReplyHeader,
    starts: dict[tuple[str, int], int],
    counts: dict[tuple[str, int, int], int],
    place: Place,
) -> StoredMessage:
    mark, at = mark_of(message.topic), (message.queue_id, message.queue_offset)
    receipt = issued_receipt(message.properties.get(names.POP_CK), header.pop_time, *at)
    if receipt is None:
        start = starts.get((mark, message.queue_id), message.queue_offset)
        times = header.pop_time, header.invisible_time, header.revive_qid
        receipt = Receipt(start, *times, mark, place.broker_name, *at)
    tries = counts.get((mark, message.queue_id, message.queue_offset), message.reconsume_times)
    return _with_receipt(message, place.topic, receipt.encode(), tries)


def _with_receipt(message: StoredMessage, topic: str, text: str, tries: int) -> StoredMessage:
    properties = {**message.properties, names.POP_CK: text}
    return msgspec.structs.replace(message, topic=topic, properties=properties, reconsume_times=tries)
