"""Threads for listeners that block.

Not concurrent.futures: its threads keep the interpreter from ending for as long as one listener does not return, and
each job costs a future and a wake-up of the loop. These are daemons, and many jobs that end together wake the loop
once. Knows nothing of messages: a job is a callable.
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
    """At most *threads_max* threads, begun when they are needed. `submit` and `close` belong to the loop."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads_max = threads_max
        self._name = name
        self._jobs: SimpleQueue[tuple[Job, Ended] | None] = SimpleQueue()
        self._ended: deque[tuple[Ended, BaseException | None]] = deque()
        self._lock = threading.Lock()
        self._waking = False  # guarded by the lock: a wake-up is on its way to the loop
        self._threads: set[threading.Thread] = set()
        self._busy = 0
        self._all_gone = asyncio.Event()
        self._closed = False

    def submit(self, job: Job, ended: Ended) -> None:
        """Run *job* in a thread, then *ended* in the loop, with what it raised."""
        self._busy += 1
        if self._busy > len(self._threads) < self._threads_max:
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
            self._threads.add(thread)
            thread.start()
        self._jobs.put((job, ended))

    async def close(self, seconds: float) -> bool:
        """Let every thread end; False when some listeners have not returned in time and are left behind."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        if not self._threads:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._all_gone.wait()
        except TimeoutError:
            return False
        return True

    def _work(self) -> None:
        while (work := self._jobs.get()) is not None:
            job, ended = work
            error: BaseException | None = None
            try:
                job()
            except BaseException as raised:  # noqa: BLE001 - also SystemExit: a listener ends nothing but itself
                error = raised
            self._tell(ended, error)
            del job, ended, error, work  # an idle thread keeps no messages alive
        self._call(self._gone, threading.current_thread())

    def _tell(self, ended: Ended, error: BaseException | None) -> None:
        self._ended.append((ended, error))
        with self._lock:
            if self._waking:
                return
            self._waking = True
        self._call(self._heard)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed over a listener that did not return: nobody is left to hear
            self._loop.call_soon_threadsafe(function, *arguments)

    def _heard(self) -> None:
        with self._lock:
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
