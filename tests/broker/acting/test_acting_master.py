"""A slave acts as master while its master is away, and the master takes its work over when it returns."""

import asyncio
import time
from pathlib import Path

from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import TransactionState
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.message.properties import decode_properties
from tests.broker.acting.groups import TOPIC, Group, bodies, records, running_group

AT_A = MessageQueue(TOPIC, "broker-a", 0)


async def send_to_a(group: Group, *messages: Message) -> None:
    async with Producer("senders", config=group.config()) as producer:
        for message in messages:
            await producer.send(message, queue=AT_A)


async def test_delayed_and_timed_messages_escape_and_a_master_that_returns_repeats_none(tmp_path: Path) -> None:
    async with running_group(tmp_path) as group:
        async with group.master() as master:
            await send_to_a(group, Message(TOPIC, b"delivered at a", delay_level=1))
            await eventually(lambda: bodies(master) == [b"delivered at a"])
            await group.until_copied(master)
            soon = int(time.time() * 1000) + 2_000
            await send_to_a(
                group,
                Message(TOPIC, b"level", delay_level=2),
                Message(TOPIC, b"timed", deliver_time_ms=soon),
                Message(TOPIC, b"far away", deliver_time_ms=soon + 3_600_000),
            )
            await group.until_copied(master)
        await group.until_acting()
        await eventually(lambda: bodies(group.other) == [b"level", b"timed"], "the due messages have escaped")
        assert bodies(group.slave) == [b"delivered at a"], "nothing is stored at the slave"
        for record in records(group.other):
            assert (
                not {"DELAY", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "REAL_TOPIC"}
                & decode_properties(record.properties).keys()
            )
        async with group.master() as master:
            await group.until_acting(False)
            await send_to_a(group, Message(TOPIC, b"later", delay_level=1))
            await eventually(lambda: b"later" in bodies(master))
            assert bodies(master) == [b"delivered at a", b"later"]
            assert bodies(group.other) == [b"level", b"timed"]


async def send_half_to_a(producer: TransactionProducer) -> bytes:
    """Send half messages until one is at broker-a, and return its body."""
    for number in range(100):
        body = b"half %d" % number
        result = await producer.send_in_transaction(Message(TOPIC, body), lambda *_: TransactionState.UNKNOWN)
        if result.send.queue.broker_name == "broker-a":
            return body
    raise AssertionError("no message went to broker-a")


async def test_a_half_message_is_checked_and_committed_at_another_master(tmp_path: Path) -> None:
    knows = False

    def check(_: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT if knows else TransactionState.UNKNOWN

    async with (
        running_group(tmp_path) as group,
        TransactionProducer("payers", check=check, config=group.config()) as producer,
    ):
        async with group.master(transaction_check_interval_ms=60_000) as master:
            body = await send_half_to_a(producer)
            await group.until_copied(master)
        await group.until_acting()
        knows = True
        await eventually(lambda: body in bodies(group.other), "the half message is committed at broker-b")
        async with group.master() as master:
            await asyncio.sleep(1.5)  # rounds of its checks
            assert body not in bodies(master), "it is not checked again at broker-a"


async def test_consumers_go_on_at_the_slave_and_the_returning_master_knows_their_offsets(tmp_path: Path) -> None:
    got: list[bytes] = []

    async def take(messages: list[StoredMessage]) -> None:
        got.extend(message.body for message in messages)

    async with running_group(tmp_path) as group:
        consumer = PushConsumer("g", config=group.config(), consume_from="first")
        consumer.subscribe(TOPIC)
        consumer.listener(ordered=True)(take)
        async with group.master() as master:
            await send_to_a(group, *(Message(TOPIC, b"%d" % number) for number in range(10)))
            await group.until_copied(master)
        await group.until_acting()
        await consumer.start()  # now: the ordered consumer needs locks of the slave
        try:
            await eventually(lambda: len(got) == 10, "the ordered consumer reads from the slave")
            offsets = group.slave.tables.offsets
            await eventually(lambda: offsets.find("g", TOPIC, 0) == 10, "and commits there")
            async with group.master() as master:
                assert master.tables.offsets.find("g", TOPIC, 0) == 10
                await send_to_a(group, Message(TOPIC, b"new"))
                await eventually(lambda: len(got) == 11)
                assert got[-1] == b"new", "nothing is consumed again"
        finally:
            await consumer.shutdown()


async def test_a_message_without_another_master_waits_and_its_own_master_delivers_it(tmp_path: Path) -> None:
    async with running_group(tmp_path, remote_escape_enabled=False) as group:
        async with group.master() as master:
            await send_to_a(group, Message(TOPIC, b"level", delay_level=2))
            await group.until_copied(master)
        await group.until_acting()
        acting = group.slave.acting
        assert acting is not None
        await eventually(lambda: acting.escape.failures > 0, "it is due and cannot escape")
        async with group.master() as master:
            await eventually(lambda: bodies(master) == [b"level"])
        assert bodies(group.other) == []


async def test_no_message_that_the_slave_lacks_is_skipped_by_the_returning_master(tmp_path: Path) -> None:
    """A timed message that was not copied before the master died is due while the slave acts."""
    async with running_group(tmp_path) as group:
        async with group.master() as master:
            await group.until_copied(master)
            side = group.slave.slave_side
            assert side is not None
            await side.slave.stop()  # from here on nothing is copied
            await send_to_a(group, Message(TOPIC, b"timed", deliver_time_ms=int(time.time() * 1000) + 1_000))
        await group.until_acting()
        await asyncio.sleep(1.5)  # past its time
        side.slave.start()
        async with group.master() as master:
            await eventually(lambda: bodies(master) == [b"timed"])
        assert bodies(group.other) == []
