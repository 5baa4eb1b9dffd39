"""Long work on the event loop, in short pieces.

The store lets one thread append and delete, the loop's, so deleting a thousand queues cannot go to another thread. It
must not hold up messages for half a second either. A handler with many small steps calls `pause` between them. All
such handlers share the turns of their loop, so that a hundred of them take no more of it than one.
"""

import time
from collections.abc import Callable
from typing import Final

from hanabi.remoting.connection.turns import Turns, turns

PIECE_SECONDS_MAX: Final = 0.002


class Yielder:
    """The pauses of one handler. To be made and used in a loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, shared: Turns | None = None) -> None:
        self._clock, self._turns = clock, shared or turns()
        self._until: float | None = None  # None: its first turn is still to come

    async def pause(self) -> None:
        """Return at once while this handler has its turn, else wait for the next one."""
        if self._until is not None and self._clock() < self._until:
            return
        if self._until is not None or self._turns.is_over():
            await self._turns.next()
        self._until = self._clock() + PIECE_SECONDS_MAX
