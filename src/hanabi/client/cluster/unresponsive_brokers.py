"""Brokers that did not answer recently. Background work skips them, as each request would take 3 s to fail.

Heartbeats continue, so a broker is used again as soon as it has answered one; a broker without heartbeats, after a
while.
"""

import time
from collections.abc import Callable
from typing import Final

from hanabi.errors import ConnectError, RequestTimeoutError, TransportError

PASSED_OVER_S: Final = 10.0  # longer than a heartbeat to a hanging broker takes, with the pause before it


class PassedOver(ConnectError):
    """Request not sent, because the broker did not answer recently. The failure before it was logged."""


class UnresponsiveBrokers:
    """Unresponsive brokers by address. `Api` reports every request to it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[str, float] = {}

    def failed(self, address: str, error: TransportError) -> None:
        """Record that a request to *address* ended with *error*. A broken connection does not count: the next may
        work.
        """
        if isinstance(error, RequestTimeoutError | ConnectError):
            self._until[address] = self._now() + PASSED_OVER_S

    def answered(self, address: str) -> None:
        if self._until:
            self._until.pop(address, None)

    def is_silent(self, address: str) -> bool:
        return self._now() < self._until.get(address, 0.0)

    def pass_over(self, address: str) -> None:
        """Raise `PassedOver` if *address* is unresponsive."""
        if self.is_silent(address):
            raise PassedOver(f"{address}: it has not answered recently; requests resume when it answers")
