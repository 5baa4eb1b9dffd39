"""Wait for a stop: by SIGTERM, by SIGINT, or by another thread.

A signal handler must be safe wherever the main thread is, even inside the wait: it only releases a lock.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

from hanabi.client.blocking.loop_thread import WAIT_SECONDS

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """`wait` returns after `stop`, from any thread and in any order."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._running.acquire()

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # stopped before
            self._running.release()

    def wait(self) -> None:
        while not self._running.acquire(timeout=WAIT_SECONDS):
            pass

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT call `stop` within the block; restore their handlers afterwards. Has no effect in
        other threads than the main one.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._signalled) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.stop()
