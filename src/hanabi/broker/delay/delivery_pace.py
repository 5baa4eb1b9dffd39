"""Pacing of delayed delivery: slices with a loop iteration between them, so that thousands of messages due in the same
second do not delay sends and pulls; and the back-off after failures.
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
SLEEP_MS_MAX: Final = 5_000  # upper bound on one sleep, as the clock may be set
_UNEXPECTED_PAUSE_MS: Final = 1_000


ESCAPING: Final = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="it is being sent to another master")
_HOPELESS: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


def pause_ms(failures: int) -> int:
    """Return the back-off after *failures* in a row: growing, up to five seconds."""
    return min(100 << min(failures - 1, 10), 5_000)


class Retries:
    """Outcome of putting delayed messages: done, given up, or retried at `at_ms`."""

    __slots__ = ("_failures", "at_ms")

    def __init__(self) -> None:
        self._failures, self.at_ms = 0, 0

    def is_over(self, result: PutResult, now_ms: int, place: Callable[[], str]) -> bool:
        """Return whether the message is finished: stored, or impossible to store. *place* describes it in logs."""
        if result.status is PutStatus.PUT_OK:
            self._failures, self.at_ms = 0, 0
            return True
        if result is ESCAPING:  # put it again after it was sent
            self.at_ms = now_ms + 1
            return False
        if result.status in _HOPELESS:
            logger.error("%s cannot be delivered and is dropped: %s", place(), result.reason)
            return True
        self.postpone(now_ms, place, result.reason)
        return False

    def postpone(self, now_ms: int, place: Callable[[], str], reason: str) -> None:
        """Schedule a retry, with growing back-off. Only the first of several failures is logged."""
        self._failures += 1
        self.at_ms = now_ms + pause_ms(self._failures)
        if self._failures == 1:
            logger.warning("%s cannot be delivered now (%s): retrying", place(), reason)


class Alarm:
    """Sleep until a moment, interrupted by `wake`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._sleeps_until_ms = NEVER_MS

    def wake(self, due_ms: int = 0) -> None:
        """Wake the sleeper by *due_ms*."""
        if due_ms < self._sleeps_until_ms:
            self._event.set()

    async def sleep_until(self, due_ms: int, now_ms: int) -> None:
        """Sleep until *due_ms* or an earlier wake-up."""
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
    """Call *step* for ever; it returns when to call it next. Before each call *look_back* may do work that is too slow
    for the event loop."""
    last_error = ""
    while True:
        try:
            await look_back()
            due_ms = step()
            last_error = ""
        except StoreError as error:
            if str(error) != last_error:  # log a repeated error once
                logger.error("delivering delayed messages failed, retrying: %s", error)
            last_error, due_ms = str(error), now_ms() + _UNEXPECTED_PAUSE_MS
        except Exception:
            # One unforeseen message must not stop the delivery of the rest.
            logger.exception("delivering delayed messages failed, retrying")
            due_ms = now_ms() + _UNEXPECTED_PAUSE_MS
        await alarm.sleep_until(due_ms, now_ms())
