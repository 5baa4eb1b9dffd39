"""Clients of a master and a slave: which of them is asked what, with both, and while one of them is gone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import SendResult, SendStatus, TransactionState
from hanabi.errors import SendFailed
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.client.pair import Pair, Replica, running_pair

PULL, COMMIT, ASK = RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET
GROUP = "readers"


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


class Inbox:
    """A push consumer of topic T that keeps what it gets."""

    def __init__(self, pair: Pair, *, ordered: bool = False, **options: Any) -> None:
        self.got: list[bytes] = []
        client = {name: options.pop(name) for name in ClientConfig.__struct_fields__ if name in options}
        self.consumer = PushConsumer(GROUP, config=pair.config(**client), **{"consume_from": "first", **options})
        self.consumer.subscribe("T")
        self.consumer.listener(ordered=ordered)(self._take)

    async def _take(self, messages: list[StoredMessage]) -> None:
        self.got += [message.body for message in messages]

    async def __aenter__(self) -> "Inbox":
        await self.consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.shutdown()


def committed(replica: Replica) -> int | None:
    return replica.offsets.get((GROUP, "T"))


async def test_a_consumer_goes_on_at_the_slave_and_returns_to_its_master() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        async with Inbox(pair) as inbox:
            await eventually(lambda: committed(pair.master) == 10)
            assert not pair.slave.codes(PULL, COMMIT, ASK)
            await pair.lose(pair.master)
            pair.logs["T"] += bodies(10, 10)  # what the slave has got and the consumer has not
            await eventually(lambda: committed(pair.slave) == 20)
            await pair.bring_back(pair.master)
            pair.logs["T"] += bodies(10, 20)
            await eventually(lambda: committed(pair.master) == 30)
            assert inbox.got == bodies(30)
            flags = {header.sys_flag & 1 for header in pair.slave.headers(PULL)}
            assert flags == {0}, "a pull from a slave commits nothing"


async def test_a_master_that_hangs_or_is_not_missed_yet_is_passed_over_for_its_slave() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        async with Inbox(pair) as inbox:
            await eventually(lambda: len(inbox.got) == 10)
            await pair.master.kill()  # the name server still knows it
            pair.logs["T"] += bodies(10, 10)
            await eventually(lambda: len(inbox.got) == 20)


async def test_a_suggested_slave_without_the_messages_sends_consumers_back_and_nothing_is_skipped() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(100)
        pair.master.suggests, pair.slave.first = 1, 100  # it began with a later file
        async with Inbox(pair) as inbox:
            await eventually(lambda: inbox.got == bodies(100))
            assert pair.slave.codes(PULL)


async def test_a_slave_that_lags_is_waited_for_without_haste_and_without_going_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(20)
        pair.slave.end = 10
        async with Inbox(pair) as inbox:
            await eventually(lambda: committed(pair.master) == 20)
            await pair.lose(pair.master)
            await eventually(lambda: any("waits at offset 20" in line for line in caplog.messages))
            asked = len(pair.slave.codes(PULL))
            await asyncio.sleep(1.0)
            assert len(pair.slave.codes(PULL)) - asked < 30
            pair.slave.end = None
            pair.logs["T"] += bodies(5, 20)
            await eventually(lambda: committed(pair.slave) == 25)
            assert inbox.got == bodies(25)
    assert len([line for line in caplog.messages if "waits at offset 20" in line]) == 1


async def test_a_lite_pull_consumer_goes_on_at_a_slave_and_waits_for_one_that_lags() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        async with LitePullConsumer(GROUP, config=pair.config(), consume_from="first") as consumer:
            consumer.subscribe("T")
            got: list[bytes] = []
            await polled(consumer, got, lambda: len(got) == 10 and committed(pair.master) == 10)
            pair.slave.end = 5
            await pair.lose(pair.master)
            await polled(consumer, got, lambda: len(pair.slave.codes(PULL)) >= 2)
            pair.slave.end = None
            pair.logs["T"] += bodies(10, 10)
            await polled(consumer, got, lambda: committed(pair.slave) == 20)
            await pair.bring_back(pair.master)
            pair.logs["T"] += bodies(10, 20)
            await polled(consumer, got, lambda: committed(pair.master) == 30)
            assert got == bodies(30)


async def polled(consumer: LitePullConsumer, got: list[bytes], true: Callable[[], bool]) -> None:
    async with asyncio.timeout(18):
        while not true():
            got += [message.body for message in await consumer.poll(0.05)]


async def test_what_a_slave_knew_of_a_group_never_takes_it_back_at_the_master() -> None:
    # The slave copies offsets every ten seconds, so a consumer that begins with it begins too early.
    async with running_pair() as pair:
        pair.logs["T"] = bodies(50)
        pair.master.offsets[GROUP, "T"], pair.slave.offsets[GROUP, "T"] = 40, 20
        await pair.lose(pair.master)
        seen: list[int | None] = []
        stop = asyncio.Event()

        async def slow(_: list[StoredMessage]) -> None:
            seen.append(committed(pair.master))
            if len(seen) == 10:
                await stop.wait()

        consumer = PushConsumer(GROUP, config=pair.config(), consume_from="first", concurrency=1)
        consumer.subscribe("T")
        consumer.listener(slow)
        async with consumer:
            await eventually(lambda: (committed(pair.slave) or 0) >= 25)
            await pair.bring_back(pair.master)
            await eventually(lambda: pair.master.codes(ASK))
            await eventually(lambda: len(pair.master.codes(RequestCode.HEART_BEAT)) >= 1)
            await asyncio.sleep(0.2)  # some rounds of saving
            assert committed(pair.master) == 40
            stop.set()
            await eventually(lambda: committed(pair.master) == 50)
        assert set(seen) <= {40}


async def test_progress_made_at_the_slave_is_committed_to_the_master_when_it_returns() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        async with Inbox(pair):
            await eventually(lambda: committed(pair.master) == 10)
            await pair.lose(pair.master)
            pair.logs["T"] += bodies(10, 10)
            await eventually(lambda: committed(pair.slave) == 20)
            assert committed(pair.master) == 10
            await pair.bring_back(pair.master)
            await eventually(lambda: committed(pair.master) == 20)  # nothing new was consumed


async def test_a_master_that_leaves_or_returns_is_noticed_long_before_the_next_refresh() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        consumer = PushConsumer(GROUP, config=pair.config(route_refresh_s=3_600.0), consume_from="first")
        consumer.subscribe("T")
        got: list[bytes] = []

        @consumer.listener
        async def keep(messages: list[StoredMessage]) -> None:
            got.extend(message.body for message in messages)

        async with consumer:
            await eventually(lambda: committed(pair.master) == 10)
            await pair.lose(pair.master)
            await eventually(lambda: committed(pair.slave) == 10)
            await pair.bring_back(pair.master)
            pair.logs["T"] += bodies(10, 10)
            await eventually(lambda: committed(pair.master) == 20)
            assert got == bodies(20)
            async with asyncio.timeout(18):  # nothing is lost any more, so the questions end
                questions = -1
                while questions != pair.route_questions:
                    questions = pair.route_questions
                    await asyncio.sleep(1.5)


async def test_a_master_that_hangs_is_passed_over_once_a_heartbeat_shows_it() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        async with Inbox(pair, heartbeat_s=0.2, request_timeout_s=0.3) as inbox:
            await eventually(lambda: len(inbox.got) == 10)
            pair.master.hangs = True
            pair.logs["T"] += bodies(10, 10)
            await eventually(lambda: len(inbox.got) == 20)
            pair.master.hangs = False
            await eventually(lambda: committed(pair.master) == 20)


async def test_orderly_queues_wait_for_their_master_and_resume_where_they_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        async with Inbox(pair, ordered=True) as inbox:
            await eventually(lambda: committed(pair.master) == 10)
            await pair.lose(pair.master)
            await eventually(lambda: any("could not be locked" in line for line in caplog.messages))
            pair.logs["T"] += bodies(10, 10)
            await eventually(lambda: pair.slave.codes(PULL))
            await asyncio.sleep(0.3)
            assert inbox.got == bodies(10)
            await pair.bring_back(pair.master)
            await eventually(lambda: committed(pair.master) == 20)
            assert inbox.got == bodies(20)
            lock = RequestCode.LOCK_BATCH_MQ
            assert pair.master.codes(lock)
            assert not pair.slave.codes(lock)


async def test_a_group_that_starts_at_the_end_waits_for_the_master_which_knows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(10)
        await pair.lose(pair.master)
        async with Inbox(pair, consume_from="last") as inbox:
            await eventually(lambda: any("know no master of broker broker-a" in line for line in caplog.messages))
            asks = {RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP}
            assert not pair.slave.codes(*asks)
            await pair.bring_back(pair.master)
            await eventually(lambda: pair.master.codes(PULL))
            pair.logs["T"] += bodies(1, 10)
            await eventually(lambda: inbox.got == bodies(1, 10))


async def test_a_failed_message_is_sent_back_to_a_master_alone() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = bodies(1)
        failures: list[bytes] = []
        consumer = PushConsumer(GROUP, config=pair.config(), consume_from="first")
        consumer.subscribe("T")

        @consumer.listener
        async def fail(messages: list[StoredMessage]) -> None:
            failures.extend(message.body for message in messages)
            if len(failures) == 1:
                await pair.lose(pair.master)
            raise ValueError("not now")

        async with consumer:
            # The slave is not asked to take it, so it stays here and is tried again after five seconds.
            await eventually(lambda: len(failures) == 2)
            back = (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2)
            assert not pair.slave.codes(*back)
            assert committed(pair.slave) in (None, 0)
            await pair.bring_back(pair.master)
            await eventually(lambda: pair.master.codes(RequestCode.CONSUMER_SEND_MSG_BACK))
            await eventually(lambda: committed(pair.master) == 1)


# Producers


async def test_producers_send_no_heartbeats_to_slaves_and_consumers_do() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = []
        beat = RequestCode.HEART_BEAT
        async with Producer("writers", config=pair.config()) as producer:
            await producer.send(Message("T", b"x"))
            await eventually(lambda: pair.master.codes(beat))
            assert not pair.slave.codes(beat)
            async with Inbox(pair):
                await eventually(lambda: pair.slave.codes(beat))
            assert pair.slave.codes(RequestCode.SEND_MESSAGE_V2) == []


async def test_without_a_master_a_send_says_so_and_goes_on_when_it_is_back() -> None:
    async with running_pair() as pair:
        async with Producer("writers", config=pair.config(), send_timeout_s=2.0) as producer:
            await producer.send(Message("T", b"0"))
            await pair.lose(pair.master)
            await producer_knows(pair, producer)
            with pytest.raises(SendFailed, match="broker-a has no master now, only slaves") as caught:
                await producer.send(Message("T", b"1"))
            assert caught.value.retriable
            assert not pair.slave.codes(RequestCode.SEND_MESSAGE_V2)
            await pair.bring_back(pair.master)
            await producer.send(Message("T", b"2"))
        assert pair.logs["T"] == [b"0", b"2"]


async def producer_knows(pair: Pair, producer: Producer) -> None:
    """Wait until the producer's route has no master."""
    routes = producer._must_run().core.routes
    await eventually(lambda: (route := routes.known("T")) is not None and not route.write_queues)


@pytest.mark.parametrize("avoids_slow", [False, True])
async def test_broker_names_without_a_master_are_avoided(avoids_slow: bool) -> None:
    async with running_pair() as pair, running_pair() as other:
        pair.others = {"broker-b": other.known}
        await pair.lose(pair.master)
        async with Producer("writers", config=pair.config(), latency_fault_tolerance=avoids_slow) as producer:
            for number in range(6):
                sent = await producer.send(Message("T", b"%d" % number))
                assert sent.queue.broker_name == "broker-b"
        assert len(other.logs["T"]) == 6


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
async def test_less_safely_stored_is_seen_in_the_result_and_tried_elsewhere_only_if_wanted(
    code: ResponseCode, status: SendStatus
) -> None:
    async with running_pair() as pair, running_pair() as other:
        pair.master.send_code = code
        async with Producer("writers", config=pair.config(), retry_not_stored=True) as producer:
            assert (await producer.send(Message("T", b"0"))).status is status, "there is no other broker"
        pair.others = {"broker-b": other.known}
        queue = MessageQueue("T", "broker-a", 0)
        async with Producer("writers", config=pair.config(), retry_not_stored=False) as producer:
            assert (await producer.send(Message("T", b"1"), queue=queue)).status is status
        async with Producer("writers", config=pair.config(), retry_not_stored=True) as producer:
            for number in range(2, 6):
                assert (await producer.send(Message("T", b"%d" % number))).status is SendStatus.SEND_OK
        assert len(other.logs["T"]) == 4


async def test_a_transaction_whose_half_is_not_at_the_slave_is_rolled_back() -> None:
    async with running_pair() as pair:
        pair.master.send_code = ResponseCode.SLAVE_NOT_AVAILABLE
        ran: list[Message] = []

        def execute(message: Message, _: SendResult) -> TransactionState:
            ran.append(message)
            return TransactionState.COMMIT

        producer = TransactionProducer("writers", config=pair.config(), check=lambda _: TransactionState.COMMIT)
        async with producer:
            result = await producer.send_in_transaction(Message("T", b"x"), execute)
            assert (result.state, result.send.status) == (TransactionState.ROLLBACK, SendStatus.SLAVE_NOT_AVAILABLE)
            assert not ran
            await eventually(lambda: pair.master.headers(RequestCode.END_TRANSACTION))
        (end,) = pair.master.headers(RequestCode.END_TRANSACTION)
        assert end.commit_or_rollback == int(TransactionState.ROLLBACK)
