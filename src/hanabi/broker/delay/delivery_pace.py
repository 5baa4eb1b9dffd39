"""How fast waiting messages are delivered: in slices with a turn of the event loop between them, so that thousands due
in the same second do not hold up those who send and pull; and how long to wait after a failure.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.errors import StoreError
from hanabi.store.message_store import PutResult, PutStatus

logger = logging.getLogger(__name__)

SLICE_COUNT: Final = 32  # messages; about a millisecond
SLICE_BYTES: Final = 256 << 10
NEVER_MS: Final = 2**63 - 1
SLEEP_MS_MAX: Final = 5_000  # then look again, as the clock may have been set
_UNEXPECTED_PAUSE_MS: Final = 1_000


_HOPELESS: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


def pause_ms(failures: int) -> int:
    """Return how long to wait after so many failures in a row: longer and longer, up to five seconds."""
    return min(100 << min(failures - 1, 10), 5_000)


class Retries:
    """What becomes of messages that are put where they belong: done, given up, or tried again at `at_ms`."""

    __slots__ = ("_failures", "at_ms")

    def __init__(self) -> None:
        self._failures, self.at_ms = 0, 0

    def is_over(self, result: PutResult, now_ms: int, place: Callable[[], str]) -> bool:
        """Return whether there is nothing more to do for the message, of which *place* tells in a log."""
        if result.status is PutStatus.PUT_OK:
            self._failures, self.at_ms = 0, 0
            return True
        if result.status in _HOPELESS:
            logger.error("%s cannot be delivered, ever: %s", place(), result.reason)
            return True
        self.postpone(now_ms, place, result.reason)
        return False

    def postpone(self, now_ms: int, place: Callable[[], str], reason: str) -> None:
        """Try again later, longer and longer after each failure. The first of several is logged."""
        self._failures += 1
        self.at_ms = now_ms + pause_ms(self._failures)
        if self._failures == 1:
            logger.warning("%s cannot be delivered now (%s): trying again", place(), reason)


class Alarm:
    """Sleeps until a moment, or until somebody says that there is something to do before it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._sleeps_until_ms = NEVER_MS

    def wake(self, due_ms: int = 0) -> None:
        """There is something to do at *due_ms*."""
        if due_ms < self._sleeps_until_ms:
            self._event.set()

    async def sleep_until(self, due_ms: int, now_ms: int) -> None:
        """Return at *due_ms*, or earlier."""
        self._sleeps_until_ms = due_ms
        if due_ms <= now_ms:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(min(due_ms - now_ms, SLEEP_MS_MAX) / 1_000):
                await self._event.wait()
        except TimeoutError:
            pass
        finally:
            self._event.clear()


async def keep_stepping(
    step: Callable[[], int], alarm: Alarm, now_ms: Callable[[], int], *, look_back: Callable[[], Awaitable[None]]
) -> None:
    """Call *step*, which returns when it wants to be called again, for ever; before each call *look_back* may do what
    takes too long for the event loop."""
    last_error = ""
    while True:
        try:
            await look_back()
            due_ms = step()
            last_error = ""
        except StoreError as error:
            if str(error) != last_error:  # once, not every second
                logger.error("delivering waiting messages failed, trying again: %s", error)
            last_error, due_ms = str(error), now_ms() + _UNEXPECTED_PAUSE_MS
        except Exception:
            # One message that nobody thought of must not end the delivery of all others.
            logger.exception("delivering waiting messages failed, trying again")
            due_ms = now_ms() + _UNEXPECTED_PAUSE_MS
        await alarm.sleep_until(due_ms, now_ms())
