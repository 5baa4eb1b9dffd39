"""The threads of blocking listeners: every job runs once, and as many at once as are allowed."""

import asyncio
import threading
import time

from hanabi.client.consumer.listening.listener_threads import ListenerThreads

DEADLINE_S = 60.0


class Ends:
    """Counts jobs that ended, in the loop; `all_of` waits for so many."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []
        self._changed = asyncio.Event()

    def __call__(self, error: BaseException | None) -> None:
        self.errors.append(error)
        self._changed.set()

    async def all_of(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.errors) < count:
                self._changed.clear()
                await self._changed.wait()


async def test_jobs_that_wait_for_each_other_all_run_at_once() -> None:
    threads, ends = ListenerThreads(20, "t"), Ends()
    for _ in range(3):  # the first round finds no threads, the others idle ones
        meeting = threading.Barrier(20, timeout=DEADLINE_S)
        before = len(ends.errors)
        for _ in range(20):
            threads.submit(meeting.wait, ends)
        await ends.all_of(before + 20)
    assert ends.errors == [None] * 60
    assert await threads.close(DEADLINE_S)


async def test_a_job_behind_one_that_blocks_does_not_wait_for_it() -> None:
    threads, ends = ListenerThreads(2, "t"), Ends()
    for _ in range(50):
        gate = threading.Event()
        before = len(ends.errors)
        threads.submit(lambda gate=gate: gate.wait(DEADLINE_S), ends)  # type: ignore[misc]
        threads.submit(gate.set, ends)
        await ends.all_of(before + 2)
    assert await threads.close(DEADLINE_S)


async def test_every_job_runs_once_however_they_come_and_end() -> None:
    threads, ends = ListenerThreads(8, "t"), Ends()
    ran: list[int] = []
    for number in range(20_000):
        threads.submit(lambda number=number: ran.append(number), ends)  # type: ignore[misc]
        if number % 7 == 0:
            await asyncio.sleep(0)
        if number % 500 == 0:
            await ends.all_of(number)
    await ends.all_of(20_000)
    assert sorted(ran) == list(range(20_000))
    assert set(ends.errors) == {None}
    assert await threads.close(DEADLINE_S)


async def test_what_a_job_raises_is_told_and_the_thread_goes_on() -> None:
    def leave() -> None:
        raise SystemExit(3)

    threads, ends = ListenerThreads(1, "t"), Ends()
    threads.submit(leave, ends)
    threads.submit(list, ends)
    await ends.all_of(2)
    assert [type(error) for error in ends.errors] == [SystemExit, type(None)]
    assert await threads.close(DEADLINE_S)


async def test_closing_runs_what_was_submitted_and_leaves_no_thread() -> None:
    threads, ends = ListenerThreads(3, "closing"), Ends()
    for _ in range(30):
        threads.submit(lambda: time.sleep(0.001), ends)
    assert await threads.close(DEADLINE_S)
    await ends.all_of(30)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("closing")]


async def test_a_listener_that_does_not_return_is_left_behind() -> None:
    threads, gate = ListenerThreads(1, "t"), threading.Event()
    threads.submit(lambda: gate.wait(DEADLINE_S), Ends())
    assert not await threads.close(0.01)
    gate.set()
