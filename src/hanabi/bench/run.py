"""The frame of a running measurement: workers that take turns, a progress line a second, an end.

`stop` ends a measurement early: what is under way is finished, and what was measured counts.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from hanabi.bench.meter import Meter
from hanabi.bench.results import Second
from hanabi.bench.send_schedule import SendSchedule

LOOK_SECONDS: Final = 0.1  # until a worker that waits for its turn sees the end

OnSecond = Callable[[Second], None]
clock = time.perf_counter


@asynccontextmanager
async def reporting(meter: Meter, on_second: OnSecond) -> AsyncIterator[None]:
    """Tell once a second what *meter* has counted."""

    async def report() -> None:
        due = clock()
        while True:
            due += 1.0
            await asyncio.sleep(max(due - clock(), 0))
            on_second(meter.second(clock()))

    reporter = asyncio.create_task(report())
    try:
        yield
    finally:
        reporter.cancel()
        with suppress(asyncio.CancelledError):
            await reporter


async def run_workers(
    pace: SendSchedule, workers: int, stop: asyncio.Event, send: Callable[[float, int], Awaitable[None]]
) -> None:
    """Call *send* for every turn of *pace*, *workers* at once, with the moment from which it counts and how many."""

    async def work() -> None:
        while not stop.is_set():
            now = clock()
            turn = pace.take(now)
            if turn is None:
                return
            begin = turn.due
            if begin > now:
                await _wait_until(begin, stop)
                if stop.is_set():
                    return
                begin = clock()  # that a timer woke us late says nothing about the cluster
            await send(begin, turn.messages)

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_until(due: float, stop: asyncio.Event) -> None:
    """Without a task for each message, which `wait_for_first` would make."""
    while (left := due - clock()) > 0 and not stop.is_set():  # noqa: ASYNC110 - the clock sets no event
        await asyncio.sleep(min(left, LOOK_SECONDS))


async def wait_for_first(*events: asyncio.Event, seconds: float | None) -> None:
    """Wait until one of *events* is set, or *seconds* are over."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


class Cpu:
    """Return the share of one core that this process has used since."""

    def __init__(self) -> None:
        self._began, self._used = clock(), time.process_time()

    @property
    def share(self) -> float:
        return (time.process_time() - self._used) / max(clock() - self._began, 1e-9)
