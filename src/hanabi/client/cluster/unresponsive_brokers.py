"""Brokers that did not answer lately. Background work passes over them at once, where each question would take 3 s.

Heartbeats go on, so a broker is asked again as soon as it has answered one; one that gets none, after a while.
"""

import time
from collections.abc import Callable
from typing import Final

from hanabi.errors import ConnectError, RequestTimeoutError, TransportError

PASSED_OVER_S: Final = 10.0  # more than a heartbeat to a broker that hangs takes, with the pause before it


class PassedOver(ConnectError):
    """Not asked, because it did not answer lately. The failure before this one was logged."""


class UnresponsiveBrokers:
    """By address. `Api` tells it of every request."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[str, float] = {}

    def failed(self, address: str, error: TransportError) -> None:
        """A request to *address* ended with *error*. A connection that broke says nothing: the next may work."""
        if isinstance(error, RequestTimeoutError | ConnectError):
            self._until[address] = self._now() + PASSED_OVER_S

    def answered(self, address: str) -> None:
        if self._until:
            self._until.pop(address, None)

    def is_silent(self, address: str) -> bool:
        return self._now() < self._until.get(address, 0.0)

    def pass_over(self, address: str) -> None:
        """Raise `PassedOver` if *address* is silent."""
        if self.is_silent(address):
            raise PassedOver(f"{address}: it has not answered lately, and is asked again when it does")
