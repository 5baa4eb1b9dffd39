"""The delay of the event loop: the time that every request waits before it is read."""

import asyncio
from typing import Final

from hanabi.metrics.histogram import Histogram

INTERVAL_SECONDS: Final = 0.1
BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class LoopDelay:
    """Sets a timer again and again, and notes how late each was. A stall of a second is one sample, of a second."""

    def __init__(self) -> None:
        self.times = Histogram(BOUNDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + INTERVAL_SECONDS
        self._timer = loop.call_at(due, self._look, due)

    def _look(self, due: float) -> None:
        self.times.add(max(asyncio.get_running_loop().time() - due, 0.0))
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
