"""A broker with one topic, and a peer that pops and acknowledges by raw requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.testing.clock import MovableClock
from hanabi.testing.cluster import running_broker
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import SendMessageHeader
from hanabi.wire.headers.v5.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeReplyHeader,
    PopMessageHeader,
    PopMessageReplyHeader,
)
from hanabi.wire.message.properties import format_properties
from hanabi.wire.message.record import Record, decode_records
from hanabi.wire.receipts import Receipt, mark_of, parse_start_offsets
from tests.broker.talk import Peer

TOPIC, GROUP, BROKER = "Orders", "billing", "broker-a"
INVISIBLE_MS = 60_000


class Popper:
    """One peer of one broker."""

    def __init__(self, broker: Broker, peer: Peer, clock: MovableClock) -> None:
        self.broker, self.peer, self.clock = broker, peer, clock

    async def send(self, *bodies: bytes, queue_id: int = 0, tag: str = "", topic: str = TOPIC) -> None:
        for body in bodies:
            header = SendMessageHeader(
                producer_group="g",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=4,
                queue_id=queue_id,
                sys_flag=0,
                born_timestamp=self.clock(),
                flag=7,
                properties=format_properties({"TAGS": tag} if tag else {"KEYS": "k"}),
            )
            reply = await self.peer.ask(RequestCode.SEND_MESSAGE, header, body)
            assert reply.code == 0, reply.remark

    def pop_header(self, **fields: Any) -> PopMessageHeader:
        header = PopMessageHeader(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=-1,
            max_msg_nums=32,
            invisible_time=INVISIBLE_MS,
            poll_time=0,
            born_time=0,
            init_mode=0,
        )
        return msgspec.structs.replace(header, **fields)

    async def pop_reply(self, **fields: Any) -> Command:
        return await self.peer.ask(RequestCode.POP_MESSAGE, self.pop_header(**fields))

    async def pop(self, **fields: Any) -> list[tuple[Record, Receipt]]:
        return popped(await self.pop_reply(**fields))

    async def bodies(self, **fields: Any) -> list[bytes]:
        return [record.body for record, _ in await self.pop(**fields)]

    async def ack(self, record: Record, receipt: Receipt, **fields: Any) -> Command:
        header = AckMessageHeader(
            consumer_group=GROUP,
            topic=record.topic,
            queue_id=record.queue_id,
            extra_info=receipt.encode(),
            offset=record.queue_offset,
        )
        return await self.peer.ask(RequestCode.ACK_MESSAGE, msgspec.structs.replace(header, **fields))

    async def change(self, record: Record, receipt: Receipt, invisible_ms: int) -> Command:
        header = ChangeInvisibleTimeHeader(
            consumer_group=GROUP,
            topic=record.topic,
            queue_id=record.queue_id,
            extra_info=receipt.encode(),
            offset=record.queue_offset,
            invisible_time=invisible_ms,
        )
        return await self.peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)

    def committed(self, topic: str = TOPIC, queue_id: int = 0) -> int:
        return self.broker.tables.offsets.find(GROUP, topic, queue_id)

    @property
    def in_flight(self) -> int:
        return self.broker.services.pop.flights.count

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)


def popped(reply: Command) -> list[tuple[Record, Receipt]]:
    """Return the records of a reply with their receipts, built from its texts as Java's client does."""
    if reply.code:
        return []
    header = reply.header(PopMessageReplyHeader)
    starts = parse_start_offsets(header.start_offset_info)
    result = []
    for record in decode_records(reply.body):
        mark = mark_of(record.topic)
        start = starts[mark, record.queue_id]
        place = mark, BROKER, record.queue_id, record.queue_offset
        result.append((record, Receipt(start, header.pop_time, header.invisible_time, header.revive_qid, *place)))
    return result


def renewed(receipt: Receipt, reply: Command) -> Receipt:
    """Return the receipt after a change."""
    header = reply.header(ChangeInvisibleTimeReplyHeader)
    return msgspec.structs.replace(receipt, pop_ms=header.pop_time, invisible_ms=header.invisible_time)


@asynccontextmanager
async def popping(
    home: Path, *, queues: int = 1, clock: MovableClock | None = None, **settings: Any
) -> AsyncIterator[Popper]:
    """Run a broker with a topic of *queues* queues. *settings* are those of the broker."""
    clock = clock or MovableClock()
    async with running_broker(home, BrokerConfig(broker_name=BROKER, **settings), now_ms=clock) as broker:
        clock.on_move = broker.services.clock_moved
        if broker.tables.topics.find(TOPIC) is None:
            await broker.tables.topics.update(
                TopicConfig(topic_name=TOPIC, read_queue_nums=queues, write_queue_nums=queues)
            )
        peer = await Peer.connect(broker.bound)
        try:
            yield Popper(broker, peer, clock)
        finally:
            await peer.close()
