"""Rate limit of a replay: the size of a chunk, and the pause after it."""

import time
from collections.abc import Callable
from typing import Final

_CHUNK_S: Final = 0.1
_CHUNK_MAX: Final = 10_000


def chunk_of(rate: float | None) -> int:
    """Return the number of messages to send between two looks at the clock."""
    return _CHUNK_MAX if rate is None else max(1, min(_CHUNK_MAX, int(rate * _CHUNK_S)))


class SendRate:
    """Rate limiter. Waits after each chunk until its time is over. Lost time is not made up for."""

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = rate, clock, sleep
        self._began = clock()

    def wait_after(self, count: int) -> None:
        """Wait for the time of *count* messages, sent since the last call."""
        if self._rate is None:
            return
        left = self._began + count / self._rate - self._clock()
        if left > 0:
            self._sleep(left)
        self._began = self._clock()
