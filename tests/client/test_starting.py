"""Beginning and ending at the same time: a start that is overtaken, cancelled or refused leaves nothing behind."""

import asyncio
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import hanabi
from hanabi import aio
from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.client.participant import Participant
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.errors import MQError
from hanabi.testing.cluster import running_cluster
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import SECONDS, eventually, within
from tests.client.slow_heartbeats import SlowHeartbeats, slow_heartbeats

KINDS = ("Producer", "TransactionProducer", "PushConsumer", "PullConsumer", "LitePullConsumer")
GROUP = "starting"


def make(face: Any, kind: str, config: ClientConfig, **options: Any) -> Any:
    client = getattr(face, kind)(GROUP, config=config, **options)
    if kind == "TransactionProducer":
        client.check(lambda message: None)
    elif kind == "PushConsumer":
        client.listener(lambda messages: None)
    if kind in ("PushConsumer", "LitePullConsumer"):
        client.subscribe("T")
    return client


@asynccontextmanager
async def neighbourhood(home: Path) -> AsyncIterator[tuple[Core, SlowHeartbeats, ClientConfig]]:
    """Yield a core that knows a broker, so that whoever joins it tells that broker first; and its answers take time."""
    async with running_cluster(home) as cluster, slow_heartbeats() as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: broker.address}, request_timeout_s=SECONDS)
        core = await Core.acquire(config)
        try:
            await core.routes.find("T")
            yield core, broker, config
        finally:
            broker.answers.set()
            await core.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_shutdown_ends_a_start_that_is_under_way(tmp_path: Path, kind: str) -> None:
    async with neighbourhood(tmp_path) as (core, broker, config):
        before = asyncio.all_tasks()
        client: Participant = make(aio, kind, config)
        starting = asyncio.create_task(client.start())
        await eventually(lambda: broker.events == ["beat"])
        ending = asyncio.create_task(client.shutdown())
        with pytest.raises(MQError, match="started already"):
            await client.start()
        broker.answers.set()
        await within(ending)
        with pytest.raises(MQError, match=f"of group {GROUP} was shut down before it had started"):
            await within(starting)
        assert broker.events == ["beat", "answered", "left"], "whoever heard of it hears that it has gone"
        await eventually(lambda: {task for task in asyncio.all_tasks() - before if GROUP in task.get_name()} == set())
        again = await Core.acquire(config, consumer_group=GROUP)
        await again.release(consumer_group=GROUP)
        assert again is core, "its group is free again"
        async with client:  # and it can be started again
            assert client.client_id == core.client_id


@pytest.mark.parametrize("kind", KINDS)
def test_shutdown_by_another_thread_ends_a_start_that_is_under_way(hanabi_cluster: EmbeddedCluster, kind: str) -> None:
    async def serve() -> tuple[Any, SlowHeartbeats]:
        serving = slow_heartbeats()
        return serving, await serving.__aenter__()

    hanabi_cluster.create_topic("T")
    serving, broker = hanabi_cluster.run(serve())
    config = hanabi_cluster.config(
        address_map={hanabi_cluster.cluster.broker.address: broker.address}, request_timeout_s=SECONDS
    )
    thread = LoopThread.acquire()
    core = thread.run(Core.acquire(config))
    try:
        thread.run(core.routes.find("T"))
        client = make(hanabi, kind, config)
        raised: list[BaseException] = []
        starting = in_thread(client.start, raised)
        thread.run(eventually(lambda: broker.events == ["beat"]))
        ending = in_thread(client.shutdown, raised)
        assert starting.is_alive()
        assert ending.is_alive()
        hanabi_cluster.run(set_event(broker.answers))
        for each in (starting, ending):
            each.join(SECONDS)
            assert not each.is_alive()
        assert ["shut down" in str(error) for error in raised] == [True], "the start says so, the shutdown does not"
        assert broker.events == ["beat", "answered", "left"]
        with client:
            assert client.client_id == core.client_id
    finally:
        thread.run(core.release())
        thread.release()
        hanabi_cluster.run(serving.__aexit__(None, None, None))
    assert [each for each in threading.enumerate() if each.name == "hanabi"] == []


def in_thread(work: Callable[[], object], raised: list[BaseException]) -> threading.Thread:
    def body() -> None:
        try:
            work()
        except MQError as error:
            raised.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    return thread


async def set_event(event: asyncio.Event) -> None:
    event.set()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_that_is_cancelled_tells_those_who_heard_of_it(tmp_path: Path, kind: str) -> None:
    async with neighbourhood(tmp_path) as (core, broker, config):
        client: Participant = make(aio, kind, config)
        starting = asyncio.create_task(client.start())
        await eventually(lambda: broker.events == ["beat"])
        starting.cancel()
        broker.answers.set()
        with pytest.raises(asyncio.CancelledError):
            await within(starting)
        assert broker.events == ["beat", "answered", "left"]
        again = await Core.acquire(config, consumer_group=GROUP)
        await again.release(consumer_group=GROUP)
        assert again is core


@pytest.mark.parametrize("kind", ["PushConsumer", "PullConsumer", "LitePullConsumer"])
async def test_a_group_whose_start_failed_is_free_for_the_next_consumer(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broadcasting consumers read a file first; this one is none."""
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path))
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        config = cluster.config(client_id="only-one")
        core = await Core.acquire(config)
        broken = make(aio, kind, config, broadcasting=True)
        offsets = tmp_path / "only-one" / GROUP / "offsets.json"
        offsets.parent.mkdir(parents=True)
        offsets.write_bytes(b"no offsets")
        with pytest.raises(MQError):
            await broken.start()
        offsets.unlink()
        async with make(aio, kind, config) as client:  # the same client id: it would be refused
            assert client.client_id == "only-one"
        await core.release()


async def test_a_second_shutdown_waits_for_the_first(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        producer = TransactionProducer(GROUP, config=cluster.config(), check=lambda message: None)
        await producer.start()
        may_end = asyncio.Event()
        began = asyncio.Event()

        async def execute(*_: object) -> None:
            began.set()
            await may_end.wait()

        sending = asyncio.create_task(producer.send_in_transaction(hanabi.Message("T", b"x"), execute))
        await within(began.wait())
        endings = [asyncio.create_task(producer.shutdown(SECONDS)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not any(ending.done() for ending in endings)
        with pytest.raises(MQError, match="started already"):
            await producer.start()
        may_end.set()
        await within(asyncio.gather(sending, *endings))
        async with producer:  # again
            await producer.send(hanabi.Message("T", b"y"))


def test_a_slow_shutdown_is_not_cut_short_by_a_second_thread(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    producer = hanabi.TransactionProducer(GROUP, config=hanabi_cluster.config(), check=lambda message: None)
    producer.start()
    began, may_end = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def execute(*_: object) -> hanabi.TransactionState:
        began.set()
        may_end.wait(SECONDS)
        return hanabi.TransactionState.COMMIT

    def send() -> None:
        result = producer.send_in_transaction(hanabi.Message("T", b"x"), execute)
        assert result.state is hanabi.TransactionState.COMMIT

    sending = in_thread(send, raised)
    assert began.wait(SECONDS)
    endings = [in_thread(lambda: producer.shutdown(SECONDS), raised) for _ in range(2)]
    endings[0].join(0.05)
    assert all(ending.is_alive() for ending in endings)
    may_end.set()
    for each in (sending, *endings):
        each.join(SECONDS)
    assert raised == []


@pytest.mark.parametrize("kind", KINDS)
def test_shutdown_in_another_event_loop_is_an_error_and_not_a_hang(hanabi_cluster: EmbeddedCluster, kind: str) -> None:
    client: Participant = make(aio, kind, hanabi_cluster.config())
    with asyncio.Runner() as own:
        own.run(client.start())
        with pytest.raises(MQError, match="started in another event loop"):
            asyncio.run(client.shutdown())
        own.run(client.shutdown())
    asyncio.run(client.shutdown())


@pytest.mark.parametrize("neighbour", [True, False], ids=["beside another client", "alone"])
@pytest.mark.parametrize("seed", range(3))
def test_threads_that_start_and_shut_down_one_object_at_once_leave_it_usable(
    hanabi_cluster: EmbeddedCluster, neighbour: bool, seed: int
) -> None:
    hanabi_cluster.create_topic("T")
    config = hanabi_cluster.config()
    producer = hanabi.Producer("hammered", config=config)
    done = threading.Event()

    def hammer(number: int) -> None:
        chance = random.Random(seed * 10 + number)
        while not done.is_set():
            with suppress(MQError):  # started already, or shut down meanwhile: both are right
                producer.start() if chance.random() < 0.5 else producer.shutdown()
            time.sleep(chance.random() * 0.002)

    threads = [threading.Thread(target=hammer, args=(number,)) for number in range(4)]
    with ExitStack() as stack:
        if neighbour:  # keeps the loop going while the hammered one has ended
            stack.enter_context(hanabi.Producer("neighbour", config=config))
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        done.set()
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)
        producer.shutdown()
        with producer:
            producer.send(hanabi.Message("T", b"works"))
        with producer:
            producer.send(hanabi.Message("T", b"works again"))


def test_a_start_that_a_signal_interrupts_when_it_is_just_done_is_undone(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    producer = hanabi.Producer("interrupted", config=hanabi_cluster.config())
    real_start = producer._aio.start
    started = threading.Event()

    async def start_then_tell() -> None:
        await real_start()
        started.set()

    def handle(number: int, frame: object) -> None:
        assert started.wait(SECONDS)
        time.sleep(0.1)
        raise InterruptedError

    async def slow_start() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        await asyncio.sleep(0.1)
        await start_then_tell()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with hanabi.Producer("neighbour", config=hanabi_cluster.config()):
            producer._aio.start = slow_start  # type: ignore[method-assign]
            with pytest.raises(InterruptedError):
                producer.start()
            producer._aio.start = real_start  # type: ignore[method-assign]
            with producer:
                producer.send(hanabi.Message("T", b"works"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
