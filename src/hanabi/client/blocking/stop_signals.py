"""Waiting until somebody says stop: the operating system by SIGTERM or SIGINT, or another thread.

What a signal handler does must be safe wherever the main thread happens to be, in the middle of waiting too: it lets go
of a lock and does nothing else.
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
    """`wait` returns after `stop`, whoever called it and whichever came first."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._running.acquire()

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the second who says so
            self._running.release()

    def wait(self) -> None:
        while not self._running.acquire(timeout=WAIT_SECONDS):
            pass

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Meanwhile SIGTERM and SIGINT mean `stop`; afterwards what they meant before. Other threads hear none."""
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
