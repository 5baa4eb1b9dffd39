"""Thread pool for blocking listeners.

concurrent.futures does not fit: its threads keep the interpreter alive while a listener does not return, and each job
costs a future, a thread wake-up and a loop wake-up. These threads are daemons. Jobs that end together wake the loop
once. Jobs that are submitted together wake one thread, which wakes the next before its own job if more jobs wait. A
blocking listener thus gets all its threads at once, while short calls run on few threads one after the other: waking a
thread for each costs more than the call. Independent of messages: a job is a callable.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

_JOIN_S: Final = 1.0  # join timeout of a thread that has reported its end

Job = Callable[[], Any]
Ended = Callable[[BaseException | None], None]


class ListenerThreads:
    """Pool of at most *threads_max* threads, started on demand. `submit` and `close` belong to the loop.

    All threads read and write two flags without a lock. This is safe because of the order: the woken side clears the
    flag before it looks for work, and the submitting side stores the work before it looks at the flag. No work is left
    behind; at worst there is a superfluous wake-up.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads_max = threads_max
        self._name = name
        self._jobs: deque[tuple[Job, Ended]] = deque()
        self._ended: deque[tuple[Ended, BaseException | None]] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()  # one item per idle thread: True to look for jobs, False to end
        self._called = False  # such an item is in flight
        self._waking = False  # a wake-up of the loop is in flight
        self._threads: set[threading.Thread] = set()
        self._busy = 0
        self._all_gone = asyncio.Event()
        self._closed = False

    def submit(self, job: Job, ended: Ended) -> None:
        """Run *job* in a thread, then *ended* in the loop with the exception it raised, or None."""
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
        """Let every thread end when it is idle; do not wait for that."""
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
        """Run jobs until none is left."""
        while self._jobs:
            try:
                job, ended = self._jobs.popleft()
            except IndexError:  # another thread took it
                return
            if self._jobs:
                self._call_one()
            error: BaseException | None = None
            try:
                job()
            except BaseException as raised:  # noqa: BLE001 - also SystemExit: a listener ends nothing but itself
                error = raised
            self._report(ended, error)
            del job, ended, error  # an idle thread keeps no messages alive

    def _report(self, ended: Ended, error: BaseException | None) -> None:
        self._ended.append((ended, error))
        if not self._waking:
            self._waking = True
            self._call_loop(self._heard)

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed while a listener had not returned: there is no receiver
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
