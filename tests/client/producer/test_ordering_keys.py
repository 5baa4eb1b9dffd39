"""Ordering keys of messages: one key, one queue, in order, by every way of sending."""

from collections import defaultdict
from pathlib import Path

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.client.producer.routing.selectors import by_hash
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import SendResult, TransactionState
from hanabi.errors import InvalidMessage, SendFailed
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.cluster import running_cluster
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.send import SendMessageV2Header
from tests.client.producer.scripted import look_up, scripted_broker, stored

KEYS = [f"order {number}" for number in range(10)]


def keyed(count: int) -> list[Message]:
    return [Message("T", b"%d" % number, ordering_key=KEYS[number % len(KEYS)]) for number in range(count)]


def bodies_by_key(messages: list[StoredMessage]) -> dict[str | None, list[int]]:
    """Return the numbers in the bodies, in the order of each queue."""
    found: dict[str | None, list[int]] = defaultdict(list)
    for message in messages:
        found[message.ordering_key].append(int(message.body))
    return found


async def test_a_key_goes_to_the_queue_that_by_hash_selects_and_travels_along(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        queues = await producer.queues("T")
        for key in KEYS:
            message = Message("T", b"x", ordering_key=key)
            result = await producer.send(message)
            assert result.queue == by_hash(queues, message, key)
            assert (await look_up(cluster.address, result)).ordering_key == key
        await producer.send_oneway(Message("T", b"x", ordering_key="k"))


async def test_a_queue_or_a_selector_of_the_send_takes_precedence(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        for number in range(4):
            queue = MessageQueue("T", "broker-a", number)
            assert (await producer.send(Message("T", b"x", ordering_key="k"), queue=queue)).queue == queue
            results = await producer.send_batch(keyed(3), selector=by_hash, arg=number)
            assert {result.queue for result in results} == {queue}


def test_send_many_and_send_batch_keep_the_order_of_each_key(hanabi_cluster: EmbeddedCluster) -> None:
    async def story() -> None:
        async with Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
            await producer.send_many(keyed(200))
            results = await producer.send_batch([*keyed(50), Message("T", b"99")])
            assert len({result.queue for result in results[:50]}) > 1
            for message, result in zip(keyed(50), results[:50], strict=True):
                found = await look_up(hanabi_cluster.address, result)
                assert (found.body, found.message_id) == (message.body, result.message_id)

    hanabi_cluster.create_topic("T")
    hanabi_cluster.run(story())
    by_key = bodies_by_key(hanabi_cluster.messages("T"))
    for number, key in enumerate(KEYS):
        assert by_key[key] == [*range(number, 200, 10), *range(number, 50, 10)]
    assert by_key[None] == [99]


async def test_after_a_failure_later_messages_of_its_key_are_not_sent(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})

        def refuse_zero(header: SendMessageV2Header, body: bytes) -> Reply:
            if body == b"0":
                return Reply(ResponseCode.MESSAGE_ILLEGAL, "no zero")
            answer = stored(header, body)
            assert isinstance(answer, Reply)
            return answer

        scripted.answer = refuse_zero
        async with Producer("g", config=config) as producer:
            results = await producer.send_many(keyed(20), return_exceptions=True)
        failed = {number for number, result in enumerate(results) if isinstance(result, Exception)}
        assert failed == {0, 10}
        assert isinstance(results[10], SendFailed)
        assert "an earlier one failed" in str(results[10])
        assert sorted(int(body) for _, body in scripted.sent) == [n for n in range(20) if n != 10]


async def test_a_failed_batch_with_keys_says_which_messages_are_stored(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})

        def only_first(header: SendMessageV2Header, body: bytes) -> Reply:
            answer = stored(header, body)
            assert isinstance(answer, Reply)
            return answer if len(scripted.sent) == 1 else Reply(ResponseCode.MESSAGE_ILLEGAL, "no more")

        scripted.answer = only_first
        async with Producer("g", config=config) as producer:
            messages = keyed(20)
            queues = await producer.queues("T")
            with pytest.raises(SendFailed) as failed:
                await producer.send_batch(messages)
        first = by_hash(queues, messages[0], KEYS[0])
        expected = [n for n, each in enumerate(messages) if by_hash(queues, each, each.ordering_key) == first]
        assert list(failed.value.stored) == expected
        assert failed.value.sent == len(expected)


async def test_a_transaction_keeps_its_key(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        producer = TransactionProducer("g", namesrv=cluster.namesrv, check=lambda message: TransactionState.COMMIT)

        def commit(message: Message, sent: SendResult) -> TransactionState:
            return TransactionState.COMMIT

        async with producer:
            message = Message("T", b"x", ordering_key="order 3")
            result = await producer.send_in_transaction(message, commit)
            assert result.send.queue == by_hash(await producer.queues("T"), message, "order 3")
        assert str(result).startswith("COMMIT: T queue ")


@pytest.mark.parametrize("key", ["", 43])
async def test_a_key_that_is_no_text_is_refused(tmp_path: Path, key: str) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        for sending in (producer.send, producer.send_oneway):
            with pytest.raises(InvalidMessage, match="ordering_key"):
                await sending(Message("T", b"x", ordering_key=key))
