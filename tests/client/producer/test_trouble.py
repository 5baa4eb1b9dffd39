"""Brokers that are down, slow, busy or unwilling: another one is tried, and the error tells the whole story."""

import asyncio
import re
from pathlib import Path

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.client.send_result import SendStatus
from hanabi.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    NoPermission,
    RequestTimeoutError,
    SendFailed,
    SystemBusy,
    TooManyRequestsError,
)
from hanabi.message import Message, MessageQueue
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.send import SendMessageV2Header
from tests.client.producer.scripted import Scripted, refusing, scripted_broker, stored, stored_with

TWO = ("broker-a", "broker-b")


async def hang(header: SendMessageV2Header, body: bytes) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


def mapped(cluster: Cluster, *scripted: Scripted) -> dict[str, str]:
    """*scripted* in place of the real brokers."""
    return {real.address: fake.address for real, fake in zip(cluster.brokers, scripted, strict=False)}


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.GO_AWAY,
    ],
)
async def test_what_one_broker_refuses_the_other_takes(tmp_path: Path, code: ResponseCode) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(refusing(code, "not now")) as bad,
        scripted_broker() as good,
    ):
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config(address_map=mapped(cluster, bad, good))) as producer:
            for _ in range(4):
                assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-b"
            assert bad.sent


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.REQUEST_CODE_NOT_SUPPORTED])
async def test_what_no_broker_would_take_is_not_tried_again(tmp_path: Path, code: ResponseCode) -> None:
    async with running_cluster(tmp_path, brokers=TWO) as cluster, scripted_broker(refusing(code, "never")) as bad:
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config(address_map=mapped(cluster, bad, bad))) as producer:
            with pytest.raises(SendFailed, match=r"tried once.*never"):
                await producer.send(Message("T", b"x"))
            assert len(bad.sent) == 1


async def test_one_that_forbids_is_asked_once_and_the_others_once_each(tmp_path: Path) -> None:
    no = refusing(ResponseCode.NO_PERMISSION, "read only")
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(no) as bad,
        scripted_broker(no) as worse,
    ):
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, bad, worse))
        async with Producer("g", config=config, retries=5) as producer:
            with pytest.raises(SendFailed, match=r"tried 2 times.*read only.*right to be written") as raised:
                await producer.send(Message("T", b"x"))
            assert isinstance(raised.value.__cause__, NoPermission)
            assert (len(bad.sent), len(worse.sent)) == (1, 1)
            assert not raised.value.maybe_stored


async def test_a_failed_send_names_the_topic_every_broker_the_time_and_what_to_do(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(refusing(ResponseCode.SYSTEM_BUSY, "too hot")) as busy,
        scripted_broker(refusing(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full")) as full,
    ):
        await cluster.create_topic("Orders")
        async with Producer("g", config=cluster.config(address_map=mapped(cluster, busy, full))) as producer:
            with pytest.raises(SendFailed) as raised:
                await producer.send(Message("Orders", b"x"))
            text = str(raised.value)
            assert "topic Orders" in text
            assert re.search(r"tried \d times in 0\.", text)
            assert "(timeout 3 s)" in text
            assert f"broker-a ({busy.address})" in text
            assert f"broker-b ({full.address})" in text
            assert "too hot" in text
            assert "disk full" in text
            assert {attempt.broker_name for attempt in raised.value.attempts} == set(TWO)
            assert any(isinstance(attempt.error, SystemBusy) for attempt in raised.value.attempts)
            assert isinstance(raised.value.__cause__, BrokerError)


async def test_one_broker_of_two_down_costs_no_message(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        await cluster.create_topic("T")
        await producer.send_many([Message("T", b"x")] * 16)
        await cluster.brokers[0].stop(0.1)
        results = await within(producer.send_many([Message("T", b"x")] * 200))
        assert {result.queue.broker_name for result in results} == {"broker-b"}


async def test_a_broker_that_dies_with_requests_under_way_costs_no_message_either(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(hang) as dying,
        scripted_broker() as good,
    ):
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config(address_map=mapped(cluster, dying, good))) as producer:
            sends = asyncio.ensure_future(producer.send_many([Message("T", b"x")] * 20))
            await eventually(lambda: len(dying.sent) >= 10)
            await dying.kill()
            results = await within(sends)
            assert {result.queue.broker_name for result in results} == {"broker-b"}


async def test_the_timeout_includes_the_retries_and_the_message_may_be_stored(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(hang) as a,
        scripted_broker(hang) as b,
    ):
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, a, b))
        async with Producer("g", config=config, attempt_timeout_s=0.1) as producer:
            with pytest.raises(SendFailed, match="may store it twice") as raised:
                await within(producer.send(Message("T", b"x"), timeout=2))
            assert len(raised.value.attempts) == 3
            assert raised.value.maybe_stored
            assert isinstance(raised.value.__cause__, RequestTimeoutError)
            with pytest.raises(SendFailed, match="tried once"):
                await producer.send(Message("T", b"x"), timeout=0.05)  # no time is left for a second try


async def test_a_slow_broker_is_given_up_for_another_when_a_try_has_its_own_timeout(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(hang) as slow,
        scripted_broker() as good,
    ):
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, slow, good))
        async with Producer("g", config=config, attempt_timeout_s=1.0, latency_fault_tolerance=True) as producer:
            for _ in range(6):
                assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-b"
            assert len(slow.sent) == 1  # it failed once, and is avoided since


async def test_a_fixed_queue_is_tried_again_only_while_nothing_can_be_stored_twice(tmp_path: Path) -> None:
    queue = MessageQueue("T", "broker-a", 0)
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(hang) as broker,
        scripted_broker() as good,
    ):
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, broker, good))
        async with Producer("g", config=config, attempt_timeout_s=1.0) as producer:
            with pytest.raises(SendFailed, match="tried once"):
                await producer.send(Message("T", b"x"), queue=queue)
            answers = iter([refusing(ResponseCode.SYSTEM_BUSY, "busy"), stored])
            broker.answer = lambda header, body: next(answers)(header, body)
            assert (await producer.send(Message("T", b"x"), queue=queue)).queue == queue
            assert good.sent == []


async def test_a_queue_of_an_unknown_broker_says_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv, retries=0) as producer:
        await cluster.create_topic("T")
        with pytest.raises(SendFailed, match="no master of broker-x"):
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-x", 0))


@pytest.mark.parametrize("insists", [False, True])
async def test_a_message_that_is_stored_but_not_safely_is_a_result_unless_another_try_is_wanted(
    tmp_path: Path, insists: bool
) -> None:
    unsafe = stored_with(ResponseCode.FLUSH_DISK_TIMEOUT)
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        scripted_broker(unsafe) as a,
        scripted_broker(unsafe) as b,
    ):
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, a, b))
        async with Producer("g", config=config, retry_not_stored=insists) as producer:
            result = await producer.send(Message("T", b"x"))
            assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
            assert len(a.sent) + len(b.sent) == (2 if insists else 1)
            b.answer = a.answer = stored
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK


async def test_a_broker_that_is_gone_is_tried_again_and_the_error_says_how_to_find_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as broker:
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config(address_map=mapped(cluster, broker))) as producer:
            await producer.send(Message("T", b"x"))
            await broker.kill()
            with pytest.raises(SendFailed, match=r"tried 3 times.*address_map") as raised:
                await producer.send(Message("T", b"x"))
            assert isinstance(raised.value.__cause__, ConnectError)
            assert not raised.value.maybe_stored


async def test_a_broker_that_restarts_gets_the_message_when_it_is_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as broker:
        await cluster.create_topic("T")
        async with Producer("g", config=cluster.config(address_map=mapped(cluster, broker))) as producer:
            await producer.send(Message("T", b"x"))
            port = int(broker.address.rpartition(":")[2])
            await broker.kill()
            send = asyncio.create_task(producer.send(Message("T", b"again")))
            await asyncio.sleep(0.02)
            assert not send.done()
            async with scripted_broker(port=port) as back:
                await within(send)
                assert [body for _, body in back.sent] == [b"again"]


async def test_routes_are_asked_for_again_when_a_send_fails_on_them(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=TWO) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        await cluster.create_topic("T", brokers=cluster.brokers[:1])
        await producer.send(Message("T", b"x"))
        await cluster.create_topic("T", brokers=cluster.brokers[1:])
        await cluster.brokers[0].stop(0.1)
        # The route has only the broker that is gone; the new one is asked for while the old one is tried again.
        result = await within(producer.send(Message("T", b"x")))
        assert result.queue.broker_name == "broker-b"


async def test_a_name_server_that_goes_away_later_is_not_missed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        await producer.send(Message("T", b"x"))
        await cluster.name_server.stop(0.1)
        await within(producer.send_many([Message("T", b"x")] * 50))


async def test_a_name_server_that_is_down_from_the_start_is_an_error_of_the_send() -> None:
    async with Producer("g", namesrv="127.0.0.1:1") as producer:
        with pytest.raises(ConnectError, match=r"no name server of 127\.0\.0\.1:1.*topic T"):
            await within(producer.send(Message("T", b"x")))


async def test_no_more_than_the_limit_is_under_way(tmp_path: Path) -> None:
    under_way, most = 0, 0
    gate = asyncio.Event()

    async def slowly(header: SendMessageV2Header, body: bytes) -> Reply:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await gate.wait()
        under_way -= 1
        answer = stored(header, body)
        assert isinstance(answer, Reply)
        return answer

    async with running_cluster(tmp_path) as cluster, scripted_broker(slowly) as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, broker))
        async with Producer("g", config=config, in_flight_max=10) as producer:
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(40)]
            await eventually(lambda: under_way == 10)
            with pytest.raises(TooManyRequestsError, match="limits 10"):
                await producer.send(Message("T", b"x"), timeout=0.05)
            gate.set()
            await within(asyncio.gather(*sends))
            assert most == 10


async def test_a_send_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker(hang) as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map=mapped(cluster, broker))
        async with Producer("g", config=config, in_flight_max=1) as producer:
            send = asyncio.create_task(producer.send(Message("T", b"x")))
            await eventually(lambda: broker.sent)
            send.cancel()
            await asyncio.wait((send,))
            broker.answer = stored
            await producer.send(Message("T", b"x"))


async def test_shutdown_finishes_what_is_under_way(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def later(header: SendMessageV2Header, body: bytes) -> Reply:
        await release.wait()
        answer = stored(header, body)
        assert isinstance(answer, Reply)
        return answer

    async with running_cluster(tmp_path) as cluster, scripted_broker(later) as broker:
        await cluster.create_topic("T")
        producer = Producer("g", config=cluster.config(address_map=mapped(cluster, broker)))
        await producer.start()
        sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(20)]
        await eventually(lambda: len(broker.sent) == 20)
        ending = asyncio.create_task(producer.shutdown())
        await asyncio.sleep(0.02)
        assert not ending.done()
        release.set()
        await within(ending)
        assert len(await within(asyncio.gather(*sends))) == 20
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_shutdown_does_not_wait_longer_than_it_may(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker(hang) as broker:
        await cluster.create_topic("T")
        producer = Producer("g", config=cluster.config(address_map=mapped(cluster, broker)))
        await producer.start()
        send = asyncio.create_task(producer.send(Message("T", b"x"), timeout=60))
        await eventually(lambda: broker.sent)
        await within(producer.shutdown(timeout=0.05))
        with pytest.raises(SendFailed) as raised:
            await within(send)
        assert isinstance(raised.value.attempts[0].error, ConnectionLostError)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_who_gives_no_time_hears_that_nothing_was_sent(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("p", config=cluster.config()) as producer:
        await cluster.create_topic("T", queues=1)
        first = await producer.send(Message("T", b"first"))
        for timeout in (0, -1):
            with pytest.raises(SendFailed, match="Give it more time") as raised:
                await producer.send(Message("T", b"none"), timeout=timeout)
            assert not raised.value.maybe_stored
        assert (await producer.send(Message("T", b"next"))).queue_offset == first.queue_offset + 1
