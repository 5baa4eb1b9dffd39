"""A listener that sees each message once in effect, with every store and under failure."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.consumer.listening.listener import ConsumeLater, is_async
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.deduplicate.deduplicate import deduplicate
from hanabi.client.deduplicate.key_store import Claim, KeyStore
from hanabi.client.deduplicate.memory_keys import MemoryKeys
from hanabi.client.deduplicate.sqlite_keys import SqliteKeys
from hanabi.client.producer.producer import Producer
from hanabi.errors import ConfigError, KeyStoreFailed
from hanabi.message import Address, Message, StoredMessage
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually


def message(key: str | None, offset: int = 0) -> StoredMessage:
    return StoredMessage(
        topic="Orders",
        body=b"x",
        tags=None,
        keys=() if key is None else (key,),
        properties={} if key is None else {"order": key},
        flag=0,
        queue_id=0,
        queue_offset=offset,
        message_id=f"id-{offset}",
        offset_message_id="",
        born_timestamp_ms=0,
        born_host=Address("127.0.0.1", 1),
        store_timestamp_ms=0,
        store_host=Address("127.0.0.1", 2),
        reconsume_times=0,
        prepared_offset=0,
        sys_flag=0,
        log_offset=0,
        size=1,
        body_crc=0,
    )


def batch(*keys: str | None) -> list[StoredMessage]:
    return [message(key, offset) for offset, key in enumerate(keys)]


Listener = Callable[[list[StoredMessage]], Any]


@pytest.fixture(params=["def", "async def"])
def listening(request: pytest.FixtureRequest) -> Callable[..., Listener]:
    """Makes a listener of either kind, decorated; calling it is always blocking."""

    def make(store: KeyStore, act: Callable[[list[str]], Any], **options: Any) -> Listener:
        if request.param == "def":

            @deduplicate("order", store, scope="test", **options)
            def listener(messages: list[StoredMessage]) -> Any:
                return act([each.properties.get("order", "") for each in messages])

            assert not is_async(listener)
            return listener

        @deduplicate("order", store, scope="test", **options)
        async def asynchronous(messages: list[StoredMessage]) -> Any:
            await asyncio.sleep(0)
            return act([each.properties.get("order", "") for each in messages])

        assert is_async(asynchronous)
        return lambda messages: asyncio.run(asynchronous(messages))

    return make


def test_what_was_consumed_is_not_seen_again(store: KeyStore, listening: Callable[..., Listener]) -> None:
    seen: list[str] = []
    listener = listening(store, seen.extend)
    listener(batch("a", "b"))
    listener(batch("b", "c", "a"))
    listener(batch("a"))
    assert seen == ["a", "b", "c"]


def test_what_failed_comes_again(store: KeyStore, listening: Callable[..., Listener]) -> None:
    seen: list[list[str]] = []

    def act(keys: list[str]) -> None:
        seen.append(keys)
        if len(seen) == 1:
            raise ValueError("not now")

    listener = listening(store, act)
    with pytest.raises(ValueError, match="not now"):
        listener(batch("a", "b"))
    listener(batch("a", "b"))
    assert seen == [["a", "b"], ["a", "b"]]


def test_two_of_a_batch_with_one_key_are_one(store: KeyStore, listening: Callable[..., Listener]) -> None:
    seen: list[str] = []
    listening(store, seen.extend)(batch("a", "a", "b"))
    assert seen == ["a", "b"]


def test_messages_without_a_key_are_always_consumed(store: KeyStore, listening: Callable[..., Listener]) -> None:
    seen: list[str] = []
    listener = listening(store, seen.extend)
    for _ in range(2):
        listener(batch(None, "a"))
    assert seen == ["", "a", ""]


def test_what_another_has_claimed_comes_again_and_the_rest_is_done(
    store: KeyStore, listening: Callable[..., Listener]
) -> None:
    seen: list[str] = []
    listener = listening(store, seen.extend)
    store.claim(["test:b"], "another", 60)
    with pytest.raises(ConsumeLater, match="claimed by another") as raised:
        listener(batch("a", "b", "c"))
    assert raised.value.succeeded == 1  # b is the first that must come again
    assert seen == ["a", "c"]
    store.done(["test:b"], "another", 60)
    listener(batch("b", "c"))
    assert seen == ["a", "c"]


def test_a_claim_of_somebody_who_died_expires(store: KeyStore, listening: Callable[..., Listener]) -> None:
    seen: list[str] = []
    store.claim(["test:a"], "somebody who dies", 0.05)
    store.claim(["test:b"], "somebody who dies", 60)
    listener = listening(store, seen.extend)
    time.sleep(0.1)
    with pytest.raises(ConsumeLater):
        listener(batch("b"))
    listener(batch("a"))
    assert seen == ["a"]


def test_a_listener_that_counts_is_understood(store: KeyStore, listening: Callable[..., Listener]) -> None:
    # It got b, d, e of five; two of them are done: a to d need not come again.
    store.claim(["test:a", "test:c"], "me", 60)
    store.done(["test:a", "test:c"], "me", 60)

    def act(keys: list[str]) -> None:
        if keys == ["b", "d", "e"]:
            raise ConsumeLater("e later", succeeded=2, delay_level=4)
        assert keys == ["e"]

    listener = listening(store, act)
    with pytest.raises(ConsumeLater, match="e later") as raised:
        listener(batch("a", "b", "c", "d", "e"))
    assert (raised.value.succeeded, raised.value.delay_level) == (4, 4)
    listener(batch("a", "b", "c", "d", "e"))


def test_what_the_listener_returns_is_returned(store: KeyStore, listening: Callable[..., Listener]) -> None:
    assert listening(store, len)(batch("a", "b")) == 2


class Broken:
    """A store that fails in one way."""

    def __init__(self, failing: str, *, blocks: bool = True) -> None:
        self._failing, self._keys, self.blocks = failing, MemoryKeys(), blocks

    def _fail(self, what: str) -> None:
        if what == self._failing:
            raise KeyStoreFailed(f"{what} is out of order")

    def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
        self._fail("claim")
        return self._keys.claim(keys, owner, seconds)

    def done(self, keys: Sequence[str], owner: str, seconds: float) -> None:
        self._fail("done")
        self._keys.done(keys, owner, seconds)

    def release(self, keys: Sequence[str], owner: str) -> None:
        self._fail("release")
        self._keys.release(keys, owner)

    def close(self) -> None: ...


def test_without_claims_nothing_is_consumed(listening: Callable[..., Listener]) -> None:
    seen: list[str] = []
    with pytest.raises(KeyStoreFailed, match="claim is out of order"):
        listening(Broken("claim"), seen.extend)(batch("a"))
    assert seen == []


def test_a_store_that_fails_afterwards_changes_nothing(
    listening: Callable[..., Listener], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    with caplog.at_level(logging.WARNING):
        listening(Broken("done"), seen.extend)(batch("a"))
        with pytest.raises(ZeroDivisionError):
            listening(Broken("release"), lambda _: 1 // 0)(batch("a"))
    assert seen == ["a"]
    assert "done is out of order" in caplog.text
    assert "release is out of order" in caplog.text


def test_listeners_have_keys_of_their_own_in_one_store() -> None:
    store, seen = MemoryKeys(), list[str]()

    @deduplicate("order", store)
    def bill(messages: list[StoredMessage]) -> None:
        seen.append("bill")

    @deduplicate(lambda each: each.keys[0], store)
    def ship(messages: list[StoredMessage]) -> None:
        seen.append("ship")

    for listener in (bill, ship, bill, ship):
        listener(batch("a"))
    assert seen == ["bill", "ship"]
    assert bill.__name__ == "bill"


def test_wrong_keys_and_times_are_refused() -> None:
    with pytest.raises(ConfigError, match="claim_s"):
        deduplicate("order", MemoryKeys(), claim_s=0)

    @deduplicate(lambda _: 7, MemoryKeys())  # type: ignore[arg-type, return-value]
    def listener(messages: list[StoredMessage]) -> None: ...

    with pytest.raises(ConfigError, match="a text or None, not 7"):
        listener(batch("a"))


async def test_a_listener_that_is_cancelled_gives_its_claims_back(store: KeyStore) -> None:
    began = asyncio.Event()

    @deduplicate("order", store, scope="test")
    async def listener(messages: list[StoredMessage]) -> None:
        began.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(listener(batch("a")))
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert store.claim(["test:a"], "next", 60) == [Claim.OURS]


async def test_a_claim_that_nobody_waits_for_any_more_is_given_back() -> None:
    class Slow(Broken):
        def __init__(self) -> None:
            super().__init__("nothing")
            self.asked, self.go_on = threading.Event(), threading.Event()

        def claim(self, keys: Sequence[str], owner: str, seconds: float) -> list[Claim]:
            self.asked.set()
            self.go_on.wait(60)
            return super().claim(keys, owner, seconds)

    store = Slow()

    @deduplicate("order", store, scope="test")
    async def listener(messages: list[StoredMessage]) -> None:
        raise AssertionError("cancelled before")

    task = asyncio.create_task(listener(batch("a")))
    await eventually(store.asked.is_set)
    task.cancel()
    await asyncio.wait([task])
    store.go_on.set()
    await eventually(lambda: not threading_names())
    assert len(store._keys) == 0


def threading_names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("deduplicate")]


async def test_a_push_consumer_consumes_once_what_was_sent_twice(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=2)
        async with Producer("shop", config=cluster.config()) as producer:
            for key in ("a", "b", "a", "c", "b", "a"):
                await producer.send(Message("Orders", key.encode(), keys=[key]))
        seen: list[str] = []
        consumer = PushConsumer("billing", config=cluster.config(), consume_from="first", consume_batch=4)
        consumer.subscribe("Orders")
        with SqliteKeys(tmp_path / "keys.db") as store:

            @consumer.listener
            @deduplicate(lambda each: each.keys[0], store, scope="billing")
            def bill(messages: list[StoredMessage]) -> None:
                seen.extend(each.body.decode() for each in messages)

            async with consumer:
                await eventually(lambda: len(seen) >= 3)
            assert sorted(seen) == ["a", "b", "c"]
