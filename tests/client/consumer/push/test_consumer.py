"""A push consumer against a real broker: what is sent is consumed, and what fails comes again."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.consumer.subscription import sql
from hanabi.errors import BrokerError, ConfigError, MQError
from hanabi.message import StoredMessage
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually, within
from tests.client.consumer.pushing import Inbox, committed, numbered, send

QUICK_RETRIES: dict[str, Any] = {"message_delay_levels": "1s 1s 1s 1s 1s 1s"}


async def test_messages_sent_before_and_after_the_start_are_consumed_once_each(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await send(cluster, numbered(50))
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: len(inbox.messages) == 50)
            await send(cluster, numbered(50, 50))
            await eventually(lambda: len(inbox.messages) == 100)
        assert sorted(inbox.bodies) == numbered(100)
        assert set(inbox.batches) == {1}
        assert sum(committed(cluster, "g").values()) == 100


async def test_a_plain_function_consumes_in_threads_and_they_are_gone_afterwards(tmp_path: Path) -> None:
    threads: set[str] = set()
    meeting = threading.Barrier(3)
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await send(cluster, numbered(30))
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", concurrency=3)
        consumer.subscribe("T")
        done: list[bytes] = []

        @consumer.listener
        def listen(messages: list[StoredMessage]) -> None:
            meeting.wait(60)  # three at once, or it breaks
            threads.add(threading.current_thread().name)
            done.extend(message.body for message in messages)

        async with consumer:
            await eventually(lambda: len(done) == 30)
        assert sorted(done) == numbered(30)
        assert len(threads) == 3

    assert not [thread for thread in threading.enumerate() if thread.name in threads]


async def test_a_group_goes_on_where_it_was_whatever_the_start_point_says(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await send(cluster, numbered(10))
        async with Inbox(cluster, "g") as first:
            await eventually(lambda: len(first.messages) == 10)
        await send(cluster, numbered(10, 10))
        async with Inbox(cluster, "g", consume_from="last") as second:
            await eventually(lambda: len(second.messages) == 10)
        assert sorted(second.bodies) == numbered(10, 10)


async def test_a_batch_listener_gets_as_many_messages_as_it_may(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(100))
        async with Inbox(cluster, "g", consume_batch=16) as inbox:
            await eventually(lambda: len(inbox.messages) == 100)
        assert max(inbox.batches) == 16
        assert inbox.bodies == numbered(100)  # one queue, and no listener that waits


async def test_a_message_that_failed_comes_again_as_the_same_message(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **QUICK_RETRIES) as cluster:
        await cluster.create_topic("T")
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
        consumer.subscribe("T")
        seen: list[StoredMessage] = []

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            seen.extend(messages)
            if len(seen) < 3:
                raise ValueError("not yet")

        async with consumer:
            await send(cluster, [b"stubborn"], tags="a", keys=["k"])
            await eventually(lambda: len(seen) == 3)
        assert [message.reconsume_times for message in seen] == [0, 1, 2]
        assert {message.topic for message in seen} == {"T"}
        assert len({message.message_id for message in seen}) == 1
        assert {message.tags for message in seen} == {"a"}
        assert sum(committed(cluster, "g").values()) == 1
        assert sum(committed(cluster, "g", "%RETRY%g").values()) == 2


async def test_a_listener_chooses_the_delay_and_what_of_its_batch_succeeded(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(4))
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", consume_batch=4)
        consumer.subscribe("T")
        again: list[bytes] = []

        @consumer.listener
        def listen(messages: list[StoredMessage]) -> None:
            if messages[0].reconsume_times == 0:
                raise ConsumeLater("the last two", delay_level=1, succeeded=2)
            again.extend(message.body for message in messages)

        async with consumer:
            await eventually(lambda: len(again) == 2, seconds=9)  # level 3, the broker's choice, takes ten
        assert sorted(again) == numbered(2, 2)


@pytest.mark.parametrize("how", ["level -1", "no more tries"])
async def test_a_message_that_is_given_up_becomes_a_dead_letter(tmp_path: Path, how: str) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        tries = 0 if how == "no more tries" else None
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", max_reconsume_times=tries)
        consumer.subscribe("T")

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            raise ConsumeLater("hopeless", delay_level=-1 if tries is None else 0)

        async with consumer:
            await send(cluster, [b"hopeless"])
            await eventually(lambda: "%DLQ%g" in cluster.broker.tables.topics)
        async with Inbox(cluster, "undertakers", "%DLQ%g") as inbox:
            await eventually(lambda: len(inbox.messages) == 1)
        assert inbox.bodies == [b"hopeless"]


async def test_tags_are_filtered_and_what_is_filtered_counts_as_consumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        for tag in ("Aa", "BB", "c"):  # the first two have the same hash code
            await send(cluster, [tag.encode()], tags=tag)
        await send(cluster, [b"none"])
        async with Inbox(cluster, "g", expression="Aa || c") as inbox:
            await eventually(lambda: len(inbox.messages) == 2)
        assert inbox.bodies == [b"Aa", b"c"]
        assert committed(cluster, "g") == {0: 4}


async def test_an_expression_filters_where_the_broker_allows_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await send(cluster, [b"little"], properties={"amount": "1"})
        await send(cluster, [b"much"], properties={"amount": "1000"})
        async with Inbox(cluster, "g", expression=sql("amount > 100")) as inbox:
            await eventually(lambda: len(inbox.messages) == 1)
        assert inbox.bodies == [b"much"]


async def test_an_expression_that_the_broker_does_not_allow_is_refused_at_the_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, property_filter_enabled=False) as cluster:
        await cluster.create_topic("T")
        inbox = Inbox(cluster, "g", expression=sql("amount > 100"))
        with pytest.raises(BrokerError, match="broker-a"):
            await inbox.consumer.start()


async def test_broadcasting_members_all_get_everything_and_nothing_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path / "offsets"))
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        failing = PushConsumer("g", config=cluster.config(), broadcasting=True, consume_from="first")
        failing.subscribe("T")
        tried: list[bytes] = []

        @failing.listener
        async def listen(messages: list[StoredMessage]) -> None:
            tried.extend(message.body for message in messages)
            raise ValueError("no")

        async with Inbox(cluster, "g", broadcasting=True) as inbox, failing:
            await send(cluster, numbered(20))
            await eventually(lambda: len(inbox.messages) == len(tried) == 20)
        assert sorted(inbox.bodies) == sorted(tried) == numbered(20)
        assert committed(cluster, "g") == {}
        assert committed(cluster, "g", "%RETRY%g") == {}


async def test_names_carry_their_namespace_on_the_wire_and_not_in_the_listener(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **QUICK_RETRIES) as cluster:
        await cluster.create_topic("shop%T")
        consumer = PushConsumer("g", config=cluster.config(namespace="shop"), consume_from="first")
        consumer.subscribe("T")
        seen: list[StoredMessage] = []

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            seen.extend(messages)
            if messages[0].reconsume_times == 0:
                raise ConsumeLater

        await send(cluster, [b"x"], "shop%T")
        async with consumer:
            await eventually(lambda: len(seen) == 2)
        assert [message.topic for message in seen] == ["T", "T"]
        assert sum(committed(cluster, "shop%g", "shop%T").values()) == 1
        assert sum(committed(cluster, "shop%g", "%RETRY%shop%g").values()) == 1


async def test_no_more_is_pulled_than_the_limits_allow(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(200))
        consumer = PushConsumer(
            "g", config=cluster.config(), consume_from="first", queue_messages_max=10, pull_batch=8, concurrency=1
        )
        consumer.subscribe("T")
        go, seen = asyncio.Event(), list[bytes]()

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            await go.wait()
            seen.extend(message.body for message in messages)

        async with consumer:
            await eventually(lambda: _held(consumer) > 10)
            await asyncio.sleep(0.1)
            assert _held(consumer) <= 10 + 8
            go.set()
            await eventually(lambda: len(seen) == 200)
        assert seen == numbered(200)


def _held(consumer: PushConsumer) -> int:
    assert consumer._session is not None
    return sum(owned.progress.count for owned in consumer._session._assigned.owned.values())


async def test_a_paused_consumer_keeps_its_queues_and_consumes_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: len(inbox.consumer.queues) >= 4)
            inbox.consumer.pause()
            await send(cluster, numbered(20))
            await asyncio.sleep(0.2)
            assert inbox.messages == []
            assert _held(inbox.consumer) < 20  # what was asked for before, and no more
            assert len(inbox.consumer.queues) >= 4
            inbox.consumer.resume()
            await eventually(lambda: len(inbox.messages) == 20)


async def test_shutdown_lets_the_listener_finish_and_saves_what_it_did(tmp_path: Path) -> None:
    release = threading.Event()
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(10))
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", concurrency=2)
        consumer.subscribe("T")
        began, finished = list[bytes](), list[bytes]()

        @consumer.listener
        def listen(messages: list[StoredMessage]) -> None:
            began.append(messages[0].body)
            release.wait(60)
            finished.append(messages[0].body)

        await consumer.start()
        await eventually(lambda: len(began) == 2)
        leaving = asyncio.create_task(consumer.shutdown())
        await asyncio.sleep(0.05)
        assert not leaving.done()
        release.set()
        await within(leaving)
        assert sorted(finished) == sorted(began) == numbered(2)
        assert committed(cluster, "g") == {0: 2}
        assert not cluster.broker.tables.consumers.client_ids("g")


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_shutdown_does_not_wait_for_ever_and_what_was_unfinished_comes_again(tmp_path: Path, kind: str) -> None:
    release = threading.Event()

    async def main() -> None:
        async with running_cluster(tmp_path) as cluster:
            await cluster.create_topic("T", queues=1)
            await send(cluster, [b"stuck"])
            consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
            consumer.subscribe("T")
            began = threading.Event()
            if kind == "def":

                @consumer.listener
                def block(messages: list[StoredMessage]) -> None:
                    began.set()
                    release.wait(60)
            else:

                @consumer.listener
                async def hang(messages: list[StoredMessage]) -> None:
                    began.set()
                    await asyncio.Event().wait()

            await consumer.start()
            await eventually(began.is_set)
            await within(consumer.shutdown(timeout=0.3))
            async with Inbox(cluster, "g") as inbox:
                await eventually(lambda: inbox.bodies == [b"stuck"])
                assert inbox.messages[0].reconsume_times == 0  # at once, and not as a retry

    try:
        await main()
    finally:
        release.set()


async def test_a_listener_that_is_cancelled_or_exits_fails_and_nothing_else_ends(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **QUICK_RETRIES) as cluster:
        await cluster.create_topic("T")
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
        consumer.subscribe("T")
        seen: list[int] = []

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            seen.append(messages[0].reconsume_times)
            if len(seen) == 1:
                raise asyncio.CancelledError
            if len(seen) == 2:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(1)

        async with consumer:
            await send(cluster, [b"x"])
            await eventually(lambda: seen == [0, 1, 2])


async def test_a_function_that_returns_a_coroutine_has_not_consumed(tmp_path: Path) -> None:
    async def nobody_awaits(messages: list[StoredMessage]) -> None: ...

    async with running_cluster(tmp_path, **QUICK_RETRIES) as cluster:
        await cluster.create_topic("T")
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
        consumer.subscribe("T")
        consumer.listener(lambda messages: nobody_awaits(messages))
        async with consumer:
            await send(cluster, [b"x"])
            await eventually(lambda: sum(committed(cluster, "g", "%RETRY%g").values()) > 0)


async def test_what_is_subscribed_to_can_change_while_it_runs(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await cluster.create_topic("U")
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: len(inbox.consumer.queues) >= 4)
            inbox.consumer.subscribe("U")
            await send(cluster, numbered(3), "U")
            await eventually(lambda: len(inbox.messages) == 3)
            inbox.consumer.unsubscribe("T")
            await eventually(lambda: not any(queue.topic == "T" for queue in inbox.consumer.queues))
            await send(cluster, numbered(3), "T")
            await send(cluster, numbered(3, 3), "U")
            await eventually(lambda: len(inbox.messages) == 6)
        assert {message.topic for message in inbox.messages} == {"U"}


async def test_a_consumer_that_is_not_ready_says_what_is_missing(tmp_path: Path) -> None:
    consumer = PushConsumer("g", namesrv="127.0.0.1:1")
    with pytest.raises(ConfigError, match="no listener"):
        await consumer.start()
    consumer.listener(lambda messages: None)
    with pytest.raises(ConfigError, match="no subscription"):
        await consumer.start()
    with pytest.raises(MQError, match="is not running"):
        consumer.pause()
    await consumer.shutdown()  # of nothing is nothing


def test_wrong_settings_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="group"):
        PushConsumer("DEFAULT_CONSUMER", namesrv="127.0.0.1:1")
    with pytest.raises(ConfigError, match="consume_batch must be between 1 and 1024, not 0"):
        PushConsumer("g", namesrv="127.0.0.1:1", consume_batch=0)
    with pytest.raises(ConfigError, match="consume_from"):
        PushConsumer("g", namesrv="127.0.0.1:1", consume_from="middle")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="consume_timeout_s must be more than 0"):
        PushConsumer("g", namesrv="127.0.0.1:1", consume_timeout_s=0)
    with pytest.raises(ConfigError, match="unknown option 'thread'"):
        PushConsumer("g", namesrv="127.0.0.1:1", thread=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"unknown option 'consume_form': did you mean consume_from\?"):
        PushConsumer("g", namesrv="127.0.0.1:1", consume_form="first")  # type: ignore[call-arg]


def test_a_second_listener_is_refused() -> None:
    consumer = PushConsumer("g", namesrv="127.0.0.1:1")

    def one(_: list[StoredMessage]) -> None: ...

    def two(_: list[StoredMessage]) -> None: ...

    consumer.listener(one)
    consumer.listener(one)
    with pytest.raises(ConfigError, match="has a listener already"):
        consumer.listener(two)
