"""Cooperative pauses for long work on the event loop.

The store lets only the loop's thread append and delete, so deleting a thousand queues cannot move to another thread; it
must not delay messages for half a second either. A handler with many small steps calls `pause` between them. All such
handlers share one time budget of the loop, so that a hundred of them take no more of it than one.
"""

import time
from collections.abc import Callable
from typing import Final

from hanabi.remoting.connection.turns import Turns, turns

PIECE_SECONDS_MAX: Final = 0.002


class Yielder:
    """Pauses of one handler. Create and use it in a loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, shared: Turns | None = None) -> None:
        self._clock, self._turns = clock, shared or turns()
        self._until: float | None = None  # None: before its first turn

    async def pause(self) -> None:
        """Return at once during this handler's turn, else wait for the next one."""
        if self._until is not None and self._clock() < self._until:
            return
        if self._until is not None or self._turns.is_over():
            await self._turns.next()
        self._until = self._clock() + PIECE_SECONDS_MAX
