"""Concurrent consumption without a broker: timeouts, local retries, and what a dropped queue means."""

import asyncio
import threading
from typing import Any

from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.listening.concurrent import Concurrent, Retry
from hanabi.client.consumer.listening.consumption import Calls
from hanabi.client.consumer.listening.listener import Listener
from hanabi.client.consumer.listening.listener_runs import listener_runs
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.errors import ConnectError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.testing.waiting import eventually
from tests.client.consumer.stored import stored

QUEUE = MessageQueue("Orders", "broker-a", 0)


class Stage:
    """One queue, a listener, and a list of what was sent back."""

    def __init__(self, listener: Listener, *, retry: Retry | None = None, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        config = PushConfig(**settings)
        self.sent_back: list[tuple[int, int]] = []
        self.owned = OwnedQueue(QUEUE, 0, now_ms=0)
        self.concurrent = Concurrent(
            "g",
            config,
            Calls(listener_runs(listener, config.concurrency, "test"), ConsumeStats(), now=loop.time),
            retry=retry or self.send_back,
            progressed=lambda _: None,
            now=loop.time,
            again_s=0.05,
        )
        self.concurrent.take(self.owned)

    async def send_back(self, owned: OwnedQueue, message: StoredMessage, delay_level: int) -> None:
        self.sent_back.append((message.queue_offset, delay_level))

    def pull(self, *offsets: int) -> None:
        messages = [stored(offset) for offset in offsets]
        self.concurrent.offer(self.owned, self.owned.progress.add(messages, offsets[-1] + 1))


async def test_a_listener_that_takes_too_long_is_given_up_once_and_its_messages_go_back() -> None:
    cancelled = asyncio.Event()

    async def hang(messages: list[StoredMessage]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    stage = Stage(hang, consume_timeout_s=0.1, consume_batch=2)
    stage.pull(0, 1)
    await eventually(lambda: stage.owned.progress.committable == 2)
    assert stage.sent_back == [(0, 3), (1, 3)]
    await asyncio.wait_for(cancelled.wait(), 60)
    assert await stage.concurrent.close(60)
    assert len(stage.sent_back) == 2


async def test_what_a_thread_says_after_it_was_given_up_counts_for_nothing() -> None:
    release = threading.Event()

    def block(messages: list[StoredMessage]) -> None:
        release.wait(60)
        raise ValueError("too late")

    stage = Stage(block, consume_timeout_s=0.1)
    stage.pull(0)
    await eventually(lambda: stage.sent_back == [(0, 3)])
    release.set()
    assert await stage.concurrent.close(60)
    assert stage.sent_back == [(0, 3)]
    assert stage.owned.progress.count == 0


async def test_a_message_that_nobody_takes_back_is_tried_again_here() -> None:
    seen: list[int] = []

    async def listen(messages: list[StoredMessage]) -> None:
        seen.append(messages[0].reconsume_times)
        if len(seen) < 3:
            raise ValueError("no")

    async def nobody(owned: OwnedQueue, message: StoredMessage, delay_level: int) -> None:
        raise ConnectError("all brokers are down")

    stage = Stage(listen, retry=nobody)
    stage.pull(0)
    await eventually(lambda: stage.owned.progress.count == 0)
    assert seen == [0, 1, 2]
    assert await stage.concurrent.close(60)


async def test_the_result_of_a_dropped_queue_changes_no_progress_and_sends_nothing_back() -> None:
    go = asyncio.Event()

    async def listen(messages: list[StoredMessage]) -> None:
        await go.wait()
        if messages[0].queue_offset:
            raise ValueError("no")

    stage = Stage(listen, concurrency=2)
    stage.pull(0, 1, 2)
    await asyncio.sleep(0)
    stage.owned.drop()
    await stage.concurrent.release(stage.owned)
    go.set()
    assert await stage.concurrent.close(60)
    assert stage.owned.progress.committable == 0
    assert stage.sent_back == []


async def test_one_slow_message_holds_back_the_offset_and_nothing_else() -> None:
    go, done = asyncio.Event(), set[int]()

    async def listen(messages: list[StoredMessage]) -> None:
        if messages[0].queue_offset == 0:
            await go.wait()
        done.update(message.queue_offset for message in messages)

    stage = Stage(listen, concurrency=2)
    stage.pull(*range(50))
    await eventually(lambda: len(done) == 49)
    assert stage.owned.progress.committable == 0
    go.set()
    await eventually(lambda: stage.owned.progress.committable == 50)
    assert await stage.concurrent.close(60)


async def test_never_more_listeners_run_at_once_than_allowed() -> None:
    now = most = 0

    async def listen(messages: list[StoredMessage]) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    stage = Stage(listen, concurrency=3)
    stage.pull(*range(40))
    await eventually(lambda: stage.owned.progress.count == 0)
    assert most == 3
    assert await stage.concurrent.close(60)


async def test_closing_begins_nothing_more_but_finishes_what_began_and_what_failed() -> None:
    began: list[int] = []

    async def listen(messages: list[StoredMessage]) -> None:
        began.append(messages[0].queue_offset)
        await asyncio.sleep(0.05)
        raise ValueError("no")

    stage = Stage(listen, concurrency=1)
    stage.pull(0, 1, 2)
    await eventually(lambda: began == [0])
    assert await stage.concurrent.close(60)
    assert began == [0]
    assert stage.sent_back == [(0, 0)]
    assert stage.owned.progress.committable == 1
