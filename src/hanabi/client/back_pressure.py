"""How much may be under way at once: a bound on the number of sends and on their bytes.

Who would go over it waits, in the order of arrival. A message larger than the bound passes when it is alone.
Agrees in meaning with the semaphores of Java's DefaultMQProducerImpl (backPressureForAsyncSendNum and -Size).
"""

import asyncio
from collections import deque

from hanabi.errors import TooManyRequestsError


class BackPressure:
    """A gate of one event loop. `enter` and `leave` come in pairs."""

    def __init__(self, sends_max: int, bytes_max: int) -> None:
        self._sends_max, self._bytes_max = sends_max, bytes_max
        self._sends = 0
        self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._empty: asyncio.Future[None] | None = None  # whom somebody waits for in `until_empty`

    @property
    def sends(self) -> int:
        """How many are under way."""
        return self._sends

    def enter_at_once(self, size: int) -> bool:
        """True if *size* bytes may go now; false if the caller must wait in `enter`."""
        if self._waiting or not self._has_room(size):
            return False
        self._sends += 1
        self._bytes += size
        return True

    def _has_room(self, size: int) -> bool:
        return self._sends < self._sends_max and (self._bytes + size <= self._bytes_max or not self._sends)

    async def enter(self, size: int, seconds: float) -> None:
        """Wait until *size* bytes may go, for at most so many *seconds*."""
        if self.enter_at_once(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(size)  # it was let in and does not come
            elif (turn, size) in self._waiting:
                self._waiting.remove((turn, size))
                self._admit()  # a small one behind it may go now
            if isinstance(error, TimeoutError):
                raise TooManyRequestsError(
                    f"no room within {seconds:.3g} s: {self._sends} sends of {self._bytes} bytes are under way, "
                    f"limits {self._sends_max} and {self._bytes_max}"
                ) from error
            raise

    def leave(self, size: int) -> None:
        self._sends -= 1
        self._bytes -= size
        if self._waiting:
            self._admit()
        if self._empty is not None and not self._sends and not self._empty.done():
            self._empty.set_result(None)

    async def until_empty(self, seconds: float) -> bool:
        """Wait until nothing is under way, for at most so many *seconds*; false: something still is."""
        if self._sends:
            if self._empty is None or self._empty.done():
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._empty,), timeout=seconds)
        return not self._sends

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][1]):
            turn, size = self._waiting.popleft()
            if turn.done():  # cancelled, but its own task has yet to run
                continue
            self._sends += 1
            self._bytes += size
            turn.set_result(None)
