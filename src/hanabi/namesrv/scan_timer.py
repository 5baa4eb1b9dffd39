"""The timer of the scan for silent brokers: a fixed interval, but never right after this process itself stalled.

After a stall (SIGSTOP, a suspended machine, a turn of the loop that took too long) signs of life wait in the sockets,
and a timer may fire before they are read. So every scan comes after a moment that passed on time: then the loop has
turned freely, and what had arrived has been heard.

    ├────────────── interval ──────────────┼─ settle ─┤ scan         late at the end of `settle`: settle again
"""

import asyncio
from collections.abc import Callable

SETTLE_SECONDS = 1.0
LATE_SECONDS = 0.5  # far more than a healthy loop is late, far less than any broker may be silent
POSTPONED_MAX = 10  # a loop that is late for ever must not keep the dead for ever


class ScanTimer:
    """Calls *scan* every *seconds*, from `start` to `cancel`."""

    def __init__(self, scan: Callable[[], None], seconds: float) -> None:
        self._scan = scan
        self._settle_seconds = min(SETTLE_SECONDS, seconds / 2)
        self._interval_seconds = seconds - self._settle_seconds
        self._late_seconds = min(LATE_SECONDS, seconds)
        self._postponed = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._wait(self._interval_seconds, lambda _: self._settle())

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settle(self) -> None:
        self._wait(self._settle_seconds, self._settled)

    def _settled(self, late_seconds: float) -> None:
        if late_seconds > self._late_seconds and self._postponed < POSTPONED_MAX:
            self._postponed += 1
            self._settle()
            return
        self._postponed = 0
        self.start()  # first, so that a failing scan is not the last
        self._scan()

    def _wait(self, seconds: float, then: Callable[[float], None]) -> None:
        """Call *then* after *seconds*, with how much later than that it is."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        self._timer = loop.call_at(due, lambda: then(loop.time() - due))
