"""Back-pressure for sends: a limit on the number and the bytes of sends in flight.

Sends beyond the limit wait, in order of arrival. A message larger than the limit passes when it is alone. When brokers
report overload, the limit on the number is halved, then grows again slowly, as in TCP. Agrees in meaning with the
semaphores of Java's DefaultMQProducerImpl (backPressureForAsyncSendNum and -Size).
"""

import asyncio
import math
from collections import deque
from typing import Final

from hanabi.errors import TooManyRequestsError

_RECOVERY: Final = 1 / 8  # growth of the limit, per as many completed sends as may be in flight


class BackPressure:
    """Gate of one event loop. `enter` and `leave` come in pairs."""

    def __init__(self, sends_max: int, bytes_max: int) -> None:
        self._sends_max, self._bytes_max = sends_max, bytes_max
        self._limit: float = sends_max  # sends that may be in flight now
        self._slowed = -math.inf  # time of the last reduction
        self._sends = 0
        self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._empty: asyncio.Future[None] | None = None  # set by `until_empty`, done when no send is in flight

    @property
    def limit(self) -> int:
        """Return the number of sends that may be in flight now."""
        return int(self._limit)

    @property
    def sends(self) -> int:
        """Return the number of sends in flight."""
        return self._sends

    def enter_at_once(self, size: int) -> bool:
        """Return True if *size* bytes may go now; False if the caller must wait in `enter`."""
        if self._waiting or not self._has_room(size):
            return False
        self._sends += 1
        self._bytes += size
        return True

    def _has_room(self, size: int) -> bool:
        return self._sends < self._limit and (self._bytes + size <= self._bytes_max or not self._sends)

    async def enter(self, size: int, seconds: float | None) -> None:
        """Wait until *size* bytes may go, for at most *seconds*; None: without limit."""
        if self.enter_at_once(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(size)  # it was admitted but will not be used
            elif (turn, size) in self._waiting:
                self._waiting.remove((turn, size))
                self._admit()  # a smaller send behind it may fit now
            if isinstance(error, TimeoutError):
                raise TooManyRequestsError(
                    f"no room within {seconds:.3g} s: {self._sends} sends of {self._bytes} bytes are in flight, "
                    f"limits {int(self._limit)} and {self._bytes_max}"
                ) from error
            raise

    def leave(self, size: int) -> None:
        if self._limit < self._sends_max:
            self._limit = min(self._sends_max, self._limit + max(1.0, self._limit * _RECOVERY) / self._limit)
        self._let_go(size)

    async def give_way(self, size: int, seconds: float | None) -> None:
        """Leave, and enter again behind the waiting sends. Even if this raises, the caller has to `leave` once."""
        self._let_go(size)
        try:
            await self.enter(size, seconds)
        except BaseException:
            self._sends += 1
            self._bytes += size
            raise

    def _let_go(self, size: int) -> None:
        self._sends -= 1
        self._bytes -= size
        if self._waiting:
            self._admit()
        if self._empty is not None and not self._sends and not self._empty.done():
            self._empty.set_result(None)

    def slow_down(self, began: float, now: float) -> None:
        """Reduce the limit: a broker was overloaded by a send of the time *began*. All sends of that time will get the
        same response: that counts once.
        """
        if began > self._slowed:
            self._limit = max(1.0, min(self._limit, self._sends) / 2)
            self._slowed = now

    async def until_empty(self, seconds: float) -> bool:
        """Wait until nothing is in flight, for at most *seconds*; False: something still is."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while self._sends and (left := ends - loop.time()) > 0:
            if self._empty is None or self._empty.done():
                self._empty = loop.create_future()
            await asyncio.wait((self._empty,), timeout=None if left == math.inf else left)
        return not self._sends

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][1]):
            turn, size = self._waiting.popleft()
            if turn.done():  # cancelled, but its own task has yet to run
                continue
            self._sends += 1
            self._bytes += size
            turn.set_result(None)
