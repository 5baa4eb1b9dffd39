"""Failed pulls of one queue: what to log, and how long to wait before the next pull.

An outage and a lagging slave are logged once, an unreadable message every minute, because the queue stands still until
an operator moves the group past it.
"""

import asyncio
import logging
from typing import Final

from hanabi.client.consumer.pull_request import PullResult
from hanabi.errors import MQError, RemoteProtocolError, UnknownReplyError
from hanabi.message import MessageQueue
from hanabi.wire.codes import ResponseCode

FIRST_ERROR_S: Final = 0.1  # doubles each time: a restarting broker is back soon, and a slave can be asked at once
ERROR_S: Final = 3.0
BROKER_FLOW_CONTROL_S: Final = 0.02
BEHIND_S: Final = 0.5  # between pulls from a slave that has no message at the offset
REPEAT_S: Final = 60.0

logger = logging.getLogger(__name__)


class PullFailures:
    """Failures of one queue of one group, counted since the last success."""

    def __init__(self, group: str, queue: MessageQueue) -> None:
        self._group, self._queue = group, queue
        self._told_at = float("-inf")
        self._count = 0

    def succeeded(self) -> None:
        self._count = 0

    def failed(self, error: MQError, offset: int | None) -> float:
        """Log a pull at *offset* that ended with *error*; return the pause before the next one."""
        if isinstance(error, UnknownReplyError) and error.reply_code == ResponseCode.FLOW_CONTROL:
            return BROKER_FLOW_CONTROL_S
        self._count += 1
        if isinstance(error, RemoteProtocolError):
            self._stands_still(error, offset)
        else:
            level = logging.WARNING if self._count == 1 else logging.DEBUG  # once per outage
            logger.log(level, "group %s: pulling from %s failed, retrying: %s", self._group, self._queue, error)
        return min(ERROR_S, FIRST_ERROR_S * 2.0 ** min(self._count - 1, 10))

    def behind(self, offset: int, result: PullResult) -> float:
        """Log that a slave without a message at *offset* gave *result*; return the pause before the next pull. The
        first time there is none, as the slave has suggested its master.
        """
        self._count += 1
        if self._count == 1:
            return 0.0
        logger.log(
            logging.WARNING if self._count == 2 else logging.DEBUG,
            "group %s waits at offset %d of %s: no master serves it now, and the slave that answers has the offsets"
            " from %d up to, but without, %d",
            self._group,
            offset,
            self._queue,
            result.min_offset,
            result.max_offset,
        )
        return BEHIND_S

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
