"""Long work on the event loop, in short pieces.

The store lets one thread append and delete, the loop's, so deleting a thousand queues cannot go to another thread. It
must not hold up messages for half a second either. Whoever has many small steps to take calls `pause` between them.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

PIECE_SECONDS_MAX: Final = 0.002


class Pace:
    """Lets others have their turn every few milliseconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + PIECE_SECONDS_MAX

    async def pause(self) -> None:
        """Return at once, or after others had their turn if we have been at work for long enough."""
        if self._clock() >= self._until:
            await asyncio.sleep(0)
            self._until = self._clock() + PIECE_SECONDS_MAX
