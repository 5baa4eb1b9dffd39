"""Sends of a blocking producer that return futures: their number is bounded, and `flush` waits for them.

Independent of messages and brokers: a send is a future.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeAlias

from hanabi.client.send_result import SendResult
from hanabi.errors import RequestTimeoutError, TooManyRequestsError

logger = logging.getLogger(__name__)

SendDone: TypeAlias = Callable[[SendResult | None, BaseException | None], object]


class PendingSends:
    """Sends without a waiting thread. Any thread may call it. *count_max* sends may be unfinished."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._room = threading.BoundedSemaphore(count_max)
        self._pending: set[Future[SendResult]] = set()

    def enter(self, seconds: float) -> None:
        """Wait for room, at most *seconds*. Each `enter` needs one `add` or `leave`."""
        if not self._room.acquire(timeout=max(0.0, seconds)):
            raise TooManyRequestsError(
                f"no room within {seconds:.3g} s: {self._count_max} sends have not ended, the limit in_flight_max"
            )

    def leave(self) -> None:
        self._room.release()

    def add(self, future: "Future[SendResult]", done: SendDone | None) -> None:
        """Leave when *future* is done, and call *done* with its result or error."""
        self._pending.add(future)
        if done is not None:
            future.add_done_callback(lambda _: _tell(future, done))
        future.add_done_callback(self._ended)

    def _ended(self, future: "Future[SendResult]") -> None:
        self._pending.discard(future)
        self._room.release()

    def wait(self, seconds: float | None) -> None:
        """Wait until the present sends have ended, well or not; raise `RequestTimeoutError` after *seconds*."""
        pending = wait(self._pending.copy(), timeout=seconds).not_done
        if pending:
            raise RequestTimeoutError(f"{len(pending)} sends have not ended within {seconds:.3g} s")


def _tell(future: "Future[SendResult]", done: SendDone) -> None:
    try:
        if future.cancelled():
            done(None, None)
        elif (error := future.exception()) is not None:
            done(None, error)
        else:
            done(future.result(), None)
    except Exception:
        logger.exception("the callback of a send failed: %r", done)
