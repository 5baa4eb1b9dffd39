"""Several messages in one request."""

from pathlib import Path

import pytest

from hanabi.client.producer.batching import Part, check_batch, split
from hanabi.client.producer.producer import Producer
from hanabi.errors import InvalidMessage, SendFailed
from hanabi.message import Message, MessageQueue
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.cluster import running_cluster
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message.batch import BatchMessage, decode_batch
from tests.client.producer.scripted import look_up, scripted_broker, stored


def parts(*sizes: int) -> list[Part]:
    return [Part(str(number), BatchMessage(0, b"x", b""), size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ((), []),
        ((10,), [1]),
        ((50, 50), [2]),
        ((50, 51), [1, 1]),
        ((30, 30, 30, 30), [3, 1]),
        ((500,), [1]),
        ((10, 500, 10, 10), [1, 1, 2]),
    ],
)
def test_a_batch_is_split_at_the_limit_and_keeps_its_order(sizes: tuple[int, ...], runs: list[int]) -> None:
    split_parts = list(split(parts(*sizes), 100))
    assert [len(run) for run in split_parts] == runs
    assert [part for run in split_parts for part in run] == parts(*sizes)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "at least one message"),
        ([Message("A", b"x"), Message("B", b"x")], "one topic"),
        ([Message("A", b"x"), Message("A", b"x", wait_stored=False)], "wait to be stored"),
        ([Message("A", b"x", delay_level=1)], "with a delay"),
        ([Message("A", b"x", deliver_time_ms=1)], "with a delay"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
    ],
)
def test_what_cannot_travel_together_is_refused(messages: list[Message], said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        check_batch(messages)


async def test_each_message_of_a_batch_gets_its_own_result(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        messages = [Message("T", b"%d" % number, tags=f"t{number}", keys=[f"k{number}"]) for number in range(5)]
        results = await producer.send_batch(messages)
        assert len({result.queue for result in results}) == 1
        assert [result.queue_offset for result in results] == [0, 1, 2, 3, 4]
        for message, result in zip(messages, results, strict=True):
            found = await look_up(cluster.broker.address, result)
            assert (found.body, found.tags) == (message.body, message.tags)
            assert found.message_id == result.message_id
        queue = MessageQueue("T", "broker-a", 3)
        assert {result.queue for result in await producer.send_batch(messages, queue=queue)} == {queue}


async def test_a_large_batch_travels_in_several_requests(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        Producer("g", namesrv=cluster.namesrv, batch_bytes_max=50_000) as producer,
    ):
        await cluster.create_topic("T")
        bodies = [bytes([number]) * 10_000 for number in range(1, 21)]
        results = await producer.send_batch([Message("T", body) for body in bodies])
        assert len(results) == 20
        assert len({result.queue for result in results}) > 1
        for body, result in zip(bodies, results, strict=True):
            assert (await look_up(cluster.broker.address, result)).body == body


async def test_a_batch_request_has_javas_fields_and_is_not_compressed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with Producer("g", config=config) as producer:
            await producer.send_batch([Message("T", b"a" * 9000), Message("T", b"b")])
            header, body = scripted.sent[0]
            assert header.batch
            assert header.properties == "WAIT\x01true"
            assert header.sys_flag == 0
            assert [message.body for message in decode_batch(body)] == [b"a" * 9000, b"b"]


async def test_when_a_part_fails_the_error_says_how_much_is_stored(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})

        def only_first(header: SendMessageV2Header, body: bytes) -> Reply:
            if len(scripted.sent) == 1:
                answer = stored(header, body)
                assert isinstance(answer, Reply)
                return answer
            return Reply(ResponseCode.MESSAGE_ILLEGAL, "no more")

        scripted.answer = only_first
        async with Producer("g", config=config, batch_bytes_max=300) as producer:
            with pytest.raises(SendFailed, match="no more") as raised:
                await producer.send_batch([Message("T", b"x" * 100)] * 3)
            assert raised.value.__notes__ == ["the first 1 of 3 messages of this batch are stored"]
            assert raised.value.sent == 1
