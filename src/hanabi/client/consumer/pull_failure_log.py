"""Log levels for failed pulls of one queue: an outage is logged once, an unreadable message every minute, because the
queue stands still until an operator moves the group past it.
"""

import asyncio
import logging
from typing import Final

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.message import MessageQueue

REPEAT_S: Final = 60.0

logger = logging.getLogger(__name__)


class PullFailureLog:
    """Failure log of one queue of one group. `failures` counts those since the last success."""

    def __init__(self, group: str, queue: MessageQueue) -> None:
        self._group, self._queue = group, queue
        self._told_at = float("-inf")
        self.failures = 0

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self, error: MQError, offset: int | None) -> None:
        """Log a pull at *offset* that ended with *error*."""
        self.failures += 1
        if isinstance(error, RemoteProtocolError):
            self._stands_still(error, offset)
        else:
            level = logging.WARNING if self.failures == 1 else logging.DEBUG  # once per outage
            logger.log(level, "group %s: pulling from %s failed, retrying: %s", self._group, self._queue, error)

    def _stands_still(self, error: MQError, offset: int | None) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at < REPEAT_S:
            return
        self._told_at = now
        logger.error(
            "group %s stands still in %s at offset %s, whose message cannot be read: %s. To skip it, set the"
            " group's offset behind it (hanabi offset reset)",
            self._group,
            self._queue,
            offset,
            error,
        )
