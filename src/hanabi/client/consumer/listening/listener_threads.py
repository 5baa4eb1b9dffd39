"""Threads for listeners that block.

Not concurrent.futures: its threads keep the interpreter from ending for as long as one listener does not return, and
each job costs a future, a wake-up of a thread and one of the loop. These are daemons. Many jobs that end together wake
the loop once, and many that are submitted together wake one thread: it wakes the next before its own job begins, if
there is more to do. A listener that blocks has all its threads at once that way, while short calls are made by few,
one after the other: waking a thread for each costs more than the call. Knows nothing of messages: a job is a callable.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

_JOIN_S: Final = 1.0  # a thread that has said goodbye needs no longer

Job = Callable[[], Any]
Ended = Callable[[BaseException | None], None]


class ListenerThreads:
    """At most *threads_max* threads, begun when they are needed. `submit` and `close` belong to the loop.

    Two flags are read and written by all threads without a lock. What makes that safe: whoever is called clears the
    flag first and looks for work then, and whoever has work puts it down first and looks at the flag then. So work is
    never left lying; at worst somebody is called twice.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads_max = threads_max
        self._name = name
        self._jobs: deque[tuple[Job, Ended]] = deque()
        self._ended: deque[tuple[Ended, BaseException | None]] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()  # each for one idle thread: True to look for jobs, False to end
        self._called = False  # such a call is on its way
        self._waking = False  # a wake-up is on its way to the loop
        self._threads: set[threading.Thread] = set()
        self._busy = 0
        self._all_gone = asyncio.Event()
        self._closed = False

    def submit(self, job: Job, ended: Ended) -> None:
        """Run *job* in a thread, then *ended* in the loop, with what it raised."""
        self._busy += 1
        self._jobs.append((job, ended))
        if self._busy > len(self._threads) < self._threads_max:
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
            self._threads.add(thread)
            thread.start()
        else:
            self._call_one()

    async def close(self, seconds: float) -> bool:
        """Let every thread end; False when some listeners have not returned in time and are left behind."""
        self.dismiss()
        if not self._threads:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._all_gone.wait()
        except TimeoutError:
            return False
        return True

    def dismiss(self) -> None:
        """Every thread ends when it has nothing to do, whether somebody waits for that or not."""
        self._closed = True
        for _ in self._threads:
            self._calls.put(False)

    def _call_one(self) -> None:
        if not self._called:
            self._called = True
            self._calls.put(True)

    def _work(self) -> None:
        going_on = True
        while True:
            self._work_off()
            if not going_on:
                break
            going_on = self._calls.get()
            self._called = False
        self._call_loop(self._gone, threading.current_thread())

    def _work_off(self) -> None:
        """All jobs that nobody else takes."""
        while self._jobs:
            try:
                job, ended = self._jobs.popleft()
            except IndexError:  # somebody else took it
                return
            if self._jobs:
                self._call_one()
            error: BaseException | None = None
            try:
                job()
            except BaseException as raised:  # noqa: BLE001 - also SystemExit: a listener ends nothing but itself
                error = raised
            self._tell(ended, error)
            del job, ended, error  # an idle thread keeps no messages alive

    def _tell(self, ended: Ended, error: BaseException | None) -> None:
        self._ended.append((ended, error))
        if not self._waking:
            self._waking = True
            self._call_loop(self._heard)

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed over a listener that did not return: nobody is left to hear
            self._loop.call_soon_threadsafe(function, *arguments)

    def _heard(self) -> None:
        self._waking = False
        while self._ended:
            ended, error = self._ended.popleft()
            self._busy -= 1
            ended(error)

    def _gone(self, thread: threading.Thread) -> None:
        thread.join(_JOIN_S)
        self._threads.discard(thread)
        if not self._threads:
            self._all_gone.set()
