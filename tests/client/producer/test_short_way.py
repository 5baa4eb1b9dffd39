"""The short way of a send, on which no task waits, ends like the long one: same results, same errors."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.client.producer.routing.selectors import round_robin
from hanabi.client.send_result import SendResult, SendStatus
from hanabi.errors import InvalidMessage, SendFailed
from hanabi.message import Message, MessageQueue
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.send import SendMessageV2Header
from tests.client.producer.scripted import refusing, scripted_broker, stored, stored_with

TWO = ("broker-a", "broker-b")


class Ended:
    """Notes whether it was the short way."""

    def __init__(self) -> None:
        self.result: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        self.rest: asyncio.Task[None] | None = None

    def finish(self, result: SendResult) -> None:
        self.result.set_result(result)

    def go_on(self, rest: Coroutine[Any, Any, SendResult]) -> None:
        async def follow() -> None:
            try:
                self.result.set_result(await rest)
            except Exception as error:  # noqa: BLE001 - raised again by who waits
                self.result.set_exception(error)

        self.rest = asyncio.create_task(follow())


async def begun(producer: Producer, message: Message, **options: Any) -> tuple[SendResult, bool]:
    """Return the result, and whether the short way led to it."""
    ended = Ended()
    rest = producer.begin_send(message, ended, **options)
    if rest is not None:
        return await within(rest), False
    return await within(ended.result), ended.rest is None


async def test_a_send_to_a_known_broker_goes_the_short_way(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config()) as producer:
            _, was_short = await begun(producer, Message("T", b"first"))
            assert not was_short  # neither the route nor a connection was there
            queue = MessageQueue("T", "broker-a", 3)
            result, was_short = await begun(producer, Message("T", b"second"), queue=queue)
            assert was_short
            assert (result.status, result.queue) == (SendStatus.SEND_OK, queue)
            picked = [
                (await begun(producer, Message("T", b"x"), selector=selector))[0].queue.queue_id
                for selector in [round_robin()]
                for _ in range(5)
            ]
            assert picked == [0, 1, 2, 3, 0]
            assert producer._must_run().gate.sends == 0


async def test_what_the_first_broker_refuses_the_other_takes(tmp_path: Path) -> None:
    busy = refusing(ResponseCode.SYSTEM_BUSY, "too hot")
    async with running_cluster(tmp_path, brokers=TWO) as cluster, scripted_broker() as a, scripted_broker() as b:
        await cluster.create_topic("T")
        addresses = {cluster.brokers[0].address: a.address, cluster.brokers[1].address: b.address}
        config = cluster.config(address_map=addresses)
        async with Producer("g", config=config, send_timeout_s=2.0) as producer:
            for _ in range(4):  # both are connected
                await producer.send(Message("T", b"x"))
            a.answer = busy
            for _ in range(4):
                result, _ = await begun(producer, Message("T", b"x"))
                assert result.queue.broker_name == "broker-b"
            b.answer = busy
            with pytest.raises(SendFailed, match=r"topic T could not be sent: tried \d+ times.*too hot") as raised:
                await begun(producer, Message("T", b"x"))
            assert {attempt.broker_name for attempt in raised.value.attempts} == set(TWO)
            assert f"broker-a ({a.address})" in str(raised.value)
            assert producer._must_run().gate.sends == 0


async def test_no_answer_in_time_and_a_lost_connection_are_told_as_on_the_long_way(tmp_path: Path) -> None:
    async def hang(header: SendMessageV2Header, body: bytes) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async with running_cluster(tmp_path) as cluster, scripted_broker() as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: broker.address})
        async with Producer("g", config=config, retries=0) as producer:
            await producer.send(Message("T", b"x"))
            broker.answer = hang
            messages: list[str] = []
            for way in (
                producer.send(Message("T", b"x"), timeout=0.3),
                begun(producer, Message("T", b"x"), timeout=0.3),
            ):
                with pytest.raises(SendFailed) as raised:
                    await way
                assert raised.value.maybe_stored
                messages.append(str(raised.value).partition(" s (timeout")[2])
            assert messages[0] == messages[1]
            lost = asyncio.create_task(begun(producer, Message("T", b"x")))
            await eventually(lambda: len(broker.sent) == 4, "three messages that wait for an answer")
            await broker.kill()
            with pytest.raises(SendFailed, match="It is unknown whether it is stored"):
                await within(lost)
            assert producer._must_run().gate.sends == 0


async def test_a_message_that_is_not_stored_safely_is_tried_again_only_where_that_is_wanted(tmp_path: Path) -> None:
    unsafe = stored_with(ResponseCode.FLUSH_DISK_TIMEOUT)
    async with running_cluster(tmp_path, brokers=TWO) as cluster, scripted_broker() as a, scripted_broker() as b:
        await cluster.create_topic("T")
        addresses = {cluster.brokers[0].address: a.address, cluster.brokers[1].address: b.address}
        for retry, brokers in ((False, 1), (True, 2)):
            config = cluster.config(address_map=addresses)
            async with Producer("g", config=config, retry_not_stored=retry) as producer:
                a.answer = b.answer = stored
                for _ in range(4):
                    await producer.send(Message("T", b"x"))
                a.answer = b.answer = unsafe
                a.sent, b.sent = [], []
                result, was_short = await begun(producer, Message("T", b"x"))
                assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
                assert was_short is not retry
                assert len(a.sent) + len(b.sent) == brokers


async def test_what_is_wrong_with_a_message_is_raised_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config()) as producer:
            await producer.send(Message("T", b"x"))
            with pytest.raises(InvalidMessage):
                producer.begin_send(Message("T", b""), Ended())
            with pytest.raises(InvalidMessage):
                producer.begin_send(Message("T", b"x"), Ended(), selector=lambda *_: "no queue")  # type: ignore[arg-type]
            assert producer._must_run().gate.sends == 0


async def test_a_send_without_time_left_is_not_begun(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as broker:
        await cluster.create_topic("T")
        async with Producer(
            "g", config=cluster.config(address_map={cluster.broker.address: broker.address})
        ) as producer:
            await producer.send(Message("T", b"x"))
            with pytest.raises(SendFailed):
                await begun(producer, Message("T", b"x"), timeout=0.0)
            assert len(broker.sent) == 1
