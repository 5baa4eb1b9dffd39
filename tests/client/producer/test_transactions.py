"""Messages in transactions: visible when committed, never when rolled back, asked for when nobody said."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.cluster.api import Api
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import SendResult, SendStatus, TransactionState
from hanabi.errors import ConfigError, InvalidMessage, MQError
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.codes import ResponseCode
from tests.client.producer.scripted import look_up, scripted_broker, stored_with, until_it_has

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
QUEUE = MessageQueue("T", "broker-a", 0)


def never(message: StoredMessage) -> TransactionState:
    raise AssertionError("nobody should ask")


async def count(address: str) -> int:
    connector = Connector()
    try:
        return await Api(connector).get_max_offset(address, QUEUE)
    finally:
        await connector.close()


def both_ways(
    function: Callable[..., TransactionState | None],
) -> list[Callable[..., TransactionState | Awaitable[TransactionState | None] | None]]:
    """*function* as `def`, as `async def`, and as a `def` that returns something to await."""

    async def as_async(*arguments: Any) -> TransactionState | None:
        await asyncio.sleep(0)
        return function(*arguments)

    return [function, as_async, lambda *arguments: as_async(*arguments)]


@pytest.mark.parametrize("kind", [0, 1, 2])
async def test_a_committed_message_is_seen_and_a_rolled_back_one_is_not(tmp_path: Path, kind: int) -> None:
    seen: list[tuple[Message, str]] = []

    def execute(message: Message, sent: SendResult) -> TransactionState:
        seen.append((message, sent.message_id))
        return COMMIT if message.body == b"yes" else ROLLBACK

    async with (
        running_cluster(tmp_path) as cluster,
        TransactionProducer("g", namesrv=cluster.namesrv, check=never) as producer,
    ):
        await cluster.create_topic("T", queues=1)
        run = both_ways(execute)[kind]
        for body in (b"no", b"yes", b"no"):
            message = Message("T", body, tags="t")
            result = await producer.send_in_transaction(message, run)
            assert seen[-1] == (message, result.send.message_id)
            assert result.state is (COMMIT if body == b"yes" else ROLLBACK)
            assert result.error is None
        await until_it_has(cluster.broker.address, QUEUE, 1)
        assert await count(cluster.broker.address) == 1


async def test_the_message_keeps_its_id_through_both_halves(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        TransactionProducer("g", namesrv=cluster.namesrv, check=never) as producer,
    ):
        await cluster.create_topic("T", queues=1)
        result = await producer.send_in_transaction(Message("T", b"x"), lambda message, sent: COMMIT)
        half = await look_up(cluster.broker.address, result.send)
        assert half.topic == "RMQ_SYS_TRANS_HALF_TOPIC"
        assert half.message_id == result.send.message_id == result.send.transaction_id
        assert half.properties["PGROUP"] == "g"


async def test_def_runs_in_a_thread_and_async_def_in_the_loop(tmp_path: Path) -> None:
    threads: list[str] = []

    def blocking(message: Message, sent: SendResult) -> TransactionState:
        threads.append(threading.current_thread().name)
        return COMMIT

    async def in_loop(message: Message, sent: SendResult) -> TransactionState:
        threads.append(threading.current_thread().name)
        return COMMIT

    async with (
        running_cluster(tmp_path) as cluster,
        TransactionProducer("g", namesrv=cluster.namesrv, check=never) as producer,
    ):
        await cluster.create_topic("T", queues=1)
        await producer.send_in_transaction(Message("T", b"x"), blocking)
        await producer.send_in_transaction(Message("T", b"x"), in_loop)
        assert threads[0] != threading.main_thread().name
        assert threads[1] == threading.main_thread().name
    assert not any("transactions of g" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("answer", [None, "COMMIT", ValueError("database down"), StopIteration()])
async def test_what_is_raised_or_no_state_counts_as_unknown(tmp_path: Path, answer: object) -> None:
    def execute(message: Message, sent: SendResult) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with (
        running_cluster(tmp_path) as cluster,
        TransactionProducer("g", namesrv=cluster.namesrv, check=never) as producer,
    ):
        await cluster.create_topic("T", queues=1)
        result = await producer.send_in_transaction(Message("T", b"x"), execute)
        assert result.state is UNKNOWN
        if answer is None:
            assert result.error is None
        elif isinstance(answer, ValueError):
            assert result.error is answer
        else:
            assert isinstance(result.error, MQError)
        assert await count(cluster.broker.address) == 0


@pytest.mark.parametrize("kind", [0, 1, 2])
async def test_the_broker_asks_for_what_it_was_not_told_until_it_knows(tmp_path: Path, kind: int) -> None:
    asked: list[StoredMessage] = []

    def check(message: StoredMessage) -> TransactionState | None:
        asked.append(message)
        if len(asked) == 1:
            raise LookupError("ask again")
        return COMMIT

    producer: TransactionProducer
    async with running_cluster(tmp_path, transaction_timeout_ms=50, transaction_check_interval_ms=50) as cluster:
        await cluster.create_topic("T", queues=1)
        producer = TransactionProducer("g", namesrv=cluster.namesrv)
        producer.check(both_ways(check)[kind])
        async with producer:
            result = await producer.send_in_transaction(Message("T", b"x", tags="t"), lambda message, sent: None)
            assert result.state is UNKNOWN
            await until_it_has(cluster.broker.address, QUEUE, 1)
            assert len(asked) >= 2
            assert asked[0].message_id == result.send.message_id
            assert (asked[0].topic, asked[0].body, asked[0].tags) == ("T", b"x", "t")


async def test_a_half_that_is_not_stored_safely_is_rolled_back_unexecuted(tmp_path: Path) -> None:
    unsafe = stored_with(ResponseCode.FLUSH_SLAVE_TIMEOUT)
    async with running_cluster(tmp_path) as cluster, scripted_broker(unsafe) as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with TransactionProducer("g", config=config, check=never) as producer:
            executed: list[Message] = []

            def execute(message: Message, sent: SendResult) -> TransactionState:
                executed.append(message)
                return COMMIT

            result = await producer.send_in_transaction(Message("T", b"x"), execute)
            assert result.send.status is SendStatus.FLUSH_SLAVE_TIMEOUT
            assert result.state is ROLLBACK
            assert executed == []


async def test_a_transaction_has_no_delay_and_its_producer_a_check(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        TransactionProducer("g", namesrv=cluster.namesrv, check=never) as producer,
    ):
        with pytest.raises(InvalidMessage, match="cannot be delayed"):
            await producer.send_in_transaction(Message("T", b"x", delay_level=1), lambda message, sent: COMMIT)
        with pytest.raises(MQError, match="no `check`"):
            await TransactionProducer("g", namesrv=cluster.namesrv, settings=ProducerConfig()).start()


async def test_shutdown_lets_a_transaction_end_that_has_begun(tmp_path: Path) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def execute(message: Message, sent: SendResult) -> TransactionState:
        began.set()
        await go_on.wait()
        return COMMIT

    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        producer = TransactionProducer("g", namesrv=cluster.namesrv, check=never)
        await producer.start()
        sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x"), execute))
        await within(began.wait())
        ending = asyncio.create_task(producer.shutdown())
        await asyncio.sleep(0.02)
        assert not ending.done()
        go_on.set()
        assert (await within(sending)).state is COMMIT
        await within(ending)
        await until_it_has(cluster.broker.address, QUEUE, 1)


class SlowCommit:
    """A function of a transaction, for a thread: it commits when it is told to."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def __call__(self, message: Message, sent: SendResult) -> TransactionState:
        self.began.set()
        self.go_on.wait()
        return COMMIT


async def test_shutdown_leaves_behind_what_never_returns(tmp_path: Path) -> None:
    slow = SlowCommit()
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        producer = TransactionProducer("g", namesrv=cluster.namesrv, check=never)
        await producer.start()
        sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x"), slow))
        await eventually(slow.began.is_set)
        await within(producer.shutdown(timeout=0.05))
        slow.go_on.set()
        assert (await within(sending)).state is COMMIT  # the broker will ask for it, as it was not told


async def test_a_shutdown_that_is_cancelled_leaves_no_thread_and_no_trace_behind(tmp_path: Path) -> None:
    slow = SlowCommit()
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        before = asyncio.all_tasks()
        producer = TransactionProducer("cancelled", namesrv=cluster.namesrv, check=never, trace=True)
        await producer.start()
        sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x"), slow))
        await eventually(slow.began.is_set)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.shutdown(timeout=60), 0.05)
        slow.go_on.set()
        await within(sending)
        names = "transactions of cancelled"
        await eventually(lambda: not any(names in thread.name for thread in threading.enumerate()))
        await eventually(lambda: not [task for task in asyncio.all_tasks() - before if "hanabi" in task.get_name()])


async def test_namespaces_are_taken_off_for_the_check(tmp_path: Path) -> None:
    asked: list[str] = []

    async def check(message: StoredMessage) -> TransactionState:
        asked.append(message.topic)
        return ROLLBACK

    async with running_cluster(tmp_path, transaction_timeout_ms=50, transaction_check_interval_ms=50) as cluster:
        await cluster.create_topic("shop%T", queues=1)
        async with TransactionProducer("g", namesrv=cluster.namesrv, namespace="shop", check=check) as producer:
            await producer.send_in_transaction(Message("T", b"x"), lambda message, sent: None)
            await eventually(lambda: asked)
            assert asked[0] == "T"


async def test_a_function_that_returns_nothing_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        TransactionProducer("p", check=never, config=cluster.config()) as producer,
    ):
        await cluster.create_topic("T")
        for _ in range(2):
            result = await producer.send_in_transaction(Message("T", b"x"), lambda *_: None)
            assert (result.state, result.error) == (UNKNOWN, None)

    said = [record.getMessage() for record in caplog.records if "returned None" in record.getMessage()]
    assert len(said) == 1
    assert "TransactionState.COMMIT" in said[0]


def test_a_second_check_is_refused() -> None:
    producer = TransactionProducer("p", check=never, namesrv="127.0.0.1:1")
    producer.check(never)
    with pytest.raises(ConfigError, match="has a check already"):
        producer.check(lambda message: COMMIT)
