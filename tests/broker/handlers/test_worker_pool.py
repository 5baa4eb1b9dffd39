"""Pools of threads for one purpose: what runs, what waits, what is refused; and that no purpose delays another."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hanabi.broker.handlers.worker_pool import Workers
from hanabi.errors import SystemBusy
from hanabi.store.read.queries import KeyQuery
from hanabi.testing.cluster import running_broker
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.query import QueryMessageHeader
from hanabi.wire.headers.send import SendMessageV2Header
from tests.broker.talk import SECONDS, connected

QUERIES = 1_000


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Closed until a test, or its end, opens it."""
    gate = threading.Event()
    yield gate
    gate.set()


async def test_work_runs_in_its_threads_and_returns_or_raises() -> None:
    workers = Workers("tests", threads=1, waiting_max=1)
    assert (await workers.run(threading.current_thread)).name.startswith("hanabi-tests")
    with pytest.raises(ValueError, match="invalid literal"):
        await workers.run(int, "no number")
    assert await workers.run(int, "7") == 7
    workers.stop()


async def test_work_beyond_what_may_wait_is_refused_and_the_rest_is_done_in_order(gate: threading.Event) -> None:
    workers = Workers("tests", threads=1, waiting_max=2)
    done: list[int] = []

    def work(number: int) -> None:
        gate.wait()
        done.append(number)

    tasks = [asyncio.create_task(workers.run(work, number)) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(SystemBusy, match="2 tests wait already"):
        await workers.run(work, 3)
    gate.set()
    await asyncio.gather(*tasks)
    assert done == [0, 1, 2]
    workers.stop()


async def test_work_whose_caller_is_cancelled_keeps_its_thread_until_it_ends(gate: threading.Event) -> None:
    workers = Workers("tests", threads=1, waiting_max=1)
    begun = threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()

    running = asyncio.create_task(workers.run(work))
    await asyncio.to_thread(begun.wait)
    running.cancel()
    await asyncio.wait((running,))
    waiting = asyncio.create_task(workers.run(int, "1"))
    await asyncio.sleep(0)
    with pytest.raises(SystemBusy):  # the thread is not free, so the one before it waits
        await workers.run(int, "2")
    waiting.cancel()
    await asyncio.wait((waiting,))
    gate.set()
    assert await workers.run(int, "3") == 3
    workers.stop()


async def test_a_send_to_a_new_topic_does_not_wait_for_key_queries(tmp_path: Path, gate: threading.Event) -> None:
    query = QueryMessageHeader(topic="T", key="k", max_num=1, begin_timestamp=0, end_timestamp=2**62)
    sent = SendMessageV2Header(
        producer_group="g",
        topic="New",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
    )

    begun = threading.Event()

    def by_key(*_: object) -> KeyQuery:
        begun.set()
        gate.wait()
        return KeyQuery([], 0, 0)

    watcher = ThreadPoolExecutor(1)
    async with running_broker(tmp_path) as broker:
        broker.store.queries.by_key = by_key  # type: ignore[method-assign, assignment]
        async with connected(broker.address) as asking, connected(broker.address) as sending:
            answers = [asking.start(RequestCode.QUERY_MESSAGE, query) for _ in range(QUERIES)]
            await asyncio.get_running_loop().run_in_executor(watcher, begun.wait)
            try:
                reply = await sending.ask(RequestCode.SEND_MESSAGE_V2, sent, b"x")
            finally:
                gate.set()
            assert reply.code == ResponseCode.SUCCESS, reply.remark
            async with asyncio.timeout(SECONDS):
                codes = [(await answer).code for answer in answers]
            assert set(codes) <= {ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_BUSY}
