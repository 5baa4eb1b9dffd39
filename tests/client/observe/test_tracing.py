"""Traces from end to end: what producers and consumers do stands in the trace topic, and costs them nothing."""

import asyncio
import logging
from pathlib import Path

import pytest

from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.hooks import ConsumeContext, ConsumeOutcome
from hanabi.client.observe.trace_data import TraceLine
from hanabi.client.observe.trace_dispatcher import CHARACTERS_MAX, KEYS_CHARACTERS_MAX, Dispatcher
from hanabi.client.observe.tracing import Tracing
from hanabi.client.producer.producer import Producer, trace_producer
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import TransactionState
from hanabi.errors import MQError
from hanabi.message import Message, StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.message.property_names import MESSAGE_REGION
from hanabi.wire.system_names import TRACE_TOPIC


async def traces(cluster: Cluster, count: int, topic: str = TRACE_TOPIC) -> list[list[str]]:
    """Return the fields of that many lines in the trace topic, by type and time."""
    lines: list[list[str]] = []
    reader = LitePullConsumer("auditors", config=cluster.config(route_refresh_s=0.1), consume_from="first")
    reader.subscribe(topic)
    async with reader:
        while len(lines) < count:
            for message in await within(reader.poll(8)):
                found = message.body.decode().split("\x02")[:-1]
                lines += [line.split("\x01") for line in found]
                assert {line.split("\x01")[5 if not line.startswith("SubAfter") else 2] for line in found} <= set(
                    message.keys
                )
    return sorted(lines, key=lambda fields: fields[0])


async def test_a_message_is_traced_from_its_sending_to_its_consumption(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        got: list[StoredMessage] = []
        consumer = PushConsumer("billing", config=cluster.config(), consume_from="first", trace=True)
        consumer.subscribe("Orders")

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            got.extend(messages)

        async with consumer, Producer("shop", config=cluster.config(), trace=True) as producer:
            sent = await producer.send(Message("Orders", b"12345", tags="paid", keys=["k1", "k2"]))
            await eventually(lambda: got)
        found = await traces(cluster, 3)
        published, after, before = found
        assert [fields[0] for fields in found] == ["Pub", "SubAfter", "SubBefore"]
        address = cluster.broker.address
        assert published[2:10] == [
            "DefaultRegion", "shop", "Orders", sent.message_id, "paid", "k1 k2", address, "5",
        ]  # fmt: skip
        assert published[11:] == ["0", sent.offset_message_id, "true"]
        assert before[2:4] == [got[0].properties.get(MESSAGE_REGION, "null"), "billing"]
        assert before[4] == after[1]  # the request id joins them
        assert before[5:] == [sent.message_id, "0", "k1 k2"]
        assert after[2] == sent.message_id
        assert (after[4], after[5], after[6], after[8]) == ("true", "k1 k2", "0", "billing")


async def test_traces_go_to_a_topic_of_ones_own_and_are_not_traced_themselves(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        for topic in ("Orders", "MyTraces"):
            await cluster.create_topic(topic, queues=1)
        async with Producer("shop", config=cluster.config(), trace="MyTraces") as producer:
            sent = [await producer.send(Message("Orders", b"x")) for _ in range(3)]
            await producer.send(Message("MyTraces", b"Pub\x01no trace of this one\x01\x01\x01\x01X\x02", keys=["X"]))
            await producer.send(Message("Orders", b"x", delay_level=1))
        found = await traces(cluster, 5, "MyTraces")
        ids = [fields[5] for fields in found]
        assert len(ids) == 5
        assert {result.message_id for result in sent} < set(ids)
        assert sorted(fields[11] for fields in found if len(fields) > 11) == ["0", "0", "0", "3"]


async def test_every_message_of_a_batch_has_its_line(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", config=cluster.config(), trace=True) as producer:
            results = await producer.send_batch([Message("Orders", b"%d" % number) for number in range(3)])
        found = await traces(cluster, 3)
        assert [fields[5] for fields in found] == [result.message_id for result in results]


async def test_both_halves_of_a_transaction_are_traced(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        producer = TransactionProducer("shop", config=cluster.config(), trace=True, check=lambda _: None)
        async with producer:

            async def execute(*_: object) -> TransactionState:
                return TransactionState.COMMIT

            result = await producer.send_in_transaction(Message("Orders", b"x", keys=["k"]), execute)
        ended, half = await traces(cluster, 2)
        assert (half[0], half[5], half[11]) == ("Pub", result.send.message_id, "1")
        assert (ended[0], ended[5], ended[9]) == ("EndTransaction", result.send.message_id, "2")
        assert ended[11:] == ["COMMIT_MESSAGE", "false"]


async def test_what_failed_is_traced_as_failed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", config=cluster.config()) as producer:
            await producer.send(Message("Orders", b"x"))
        reader = LitePullConsumer("readers", config=cluster.config(), consume_from="first")
        reader.subscribe("Orders")
        async with reader:
            messages = await within(reader.poll(8))
        tracing = Tracing(cluster.config(), "readers", trace_producer)
        await tracing.start()
        context = ConsumeContext(group="readers", queue=messages[0].queue, messages=messages)
        tracing.before_consume(context)
        context.outcome = ConsumeOutcome.TIME_OUT
        tracing.after_consume(context)
        await tracing.close()
        after, _ = await traces(cluster, 2)
        assert (after[0], after[4], after[6]) == ("SubAfter", "false", "1")
        assert tracing.dropped == 0


async def test_names_in_traces_carry_no_namespace_and_neither_does_their_topic(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("ns%Orders", queues=1)
        async with Producer("shop", config=cluster.config(namespace="ns"), trace=True) as producer:
            await producer.send(Message("Orders", b"x"))
        (published,) = await traces(cluster, 1)
        assert published[3:5] == ["shop", "Orders"]


async def test_a_cluster_that_cannot_be_reached_costs_the_traced_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)
            raise MQError("nobody is there")

        dispatcher = Dispatcher("Traces", send)
        dispatcher.start()
        for number in range(10):
            dispatcher.add(line(number))
        await eventually(lambda: sent)
        dispatcher.add(line(10))
        await dispatcher.close()
        assert dispatcher.dropped == 11

    with caplog.at_level(logging.WARNING):
        await main()
    assert caplog.text.count("nobody is there") == 1
    assert "11 lines of traces for Traces were dropped" in caplog.text


def line(number: int, text: str = "") -> TraceLine:
    return TraceLine(f"Pub\x01{number}{text}\x02", (f"id-{number}",))


async def test_what_is_too_much_is_dropped_and_counted() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    dispatcher = Dispatcher("Traces", send, lines_max=5)
    dispatcher.start()
    for number in range(8):
        dispatcher.add(line(number))
    assert dispatcher.dropped == 3
    await dispatcher.close()
    (message,) = sent
    assert list(message.keys) == [f"id-{number}" for number in range(5)]
    dispatcher.add(line(9))
    assert dispatcher.dropped == 4


async def test_messages_of_traces_are_full_but_not_too_large() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    dispatcher = Dispatcher("Traces", send)
    dispatcher.start()
    for number in range(3_000):
        dispatcher.add(line(number, "x" * 90))
    await eventually(lambda: len(sent) >= 2)  # without waiting for the half second
    await dispatcher.close()
    assert dispatcher.dropped == 0
    assert sum(message.body.count(b"\x02") for message in sent) == 3_000
    assert all(len(message.body) <= CHARACTERS_MAX for message in sent)
    for number in range(2_000):
        dispatcher._closing = False
        dispatcher.add(TraceLine("x\x02", (f"{number:032}",)))
    while dispatcher._lines:
        message, _ = dispatcher._next()
        assert len(" ".join(message.keys)) <= KEYS_CHARACTERS_MAX


async def test_closing_takes_no_longer_than_it_may() -> None:
    async def send(_: Message) -> None:
        await asyncio.sleep(60)

    dispatcher = Dispatcher("Traces", send)
    dispatcher.start()
    dispatcher.add(line(1))
    dispatcher.add(line(2))
    await within(dispatcher.close(0.05))
    assert dispatcher.dropped == 2
