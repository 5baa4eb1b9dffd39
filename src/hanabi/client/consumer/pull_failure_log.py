"""How loudly failed pulls of one queue are logged: an outage once; a message that cannot be read every minute, as the
queue stands still until an operator moves the group past it."""

import asyncio
import logging
from typing import Final

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.message import MessageQueue

REPEAT_S: Final = 60.0

logger = logging.getLogger(__name__)


class PullFailureLog:
    """For one queue of one group. `failures` counts those since the last success."""

    def __init__(self, group: str, queue: MessageQueue) -> None:
        self._group, self._queue = group, queue
        self._told_at = float("-inf")
        self.failures = 0

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self, error: MQError, offset: int | None) -> None:
        """A pull at *offset* ended with *error*."""
        self.failures += 1
        if isinstance(error, RemoteProtocolError):
            self._stands_still(error, offset)
        else:
            level = logging.WARNING if self.failures == 1 else logging.DEBUG  # once an outage
            logger.log(level, "group %s: pulling from %s failed, trying again: %s", self._group, self._queue, error)

    def _stands_still(self, error: MQError, offset: int | None) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at < REPEAT_S:
            return
        self._told_at = now
        logger.error(
            "group %s stands still in %s at offset %s, whose message cannot be read: %s. To go on without it, set the"
            " group's offset behind it (hanabi offset reset)",
            self._group,
            self._queue,
            offset,
            error,
        )
