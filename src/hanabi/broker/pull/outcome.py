"""Outcome of a pull: the response code for the result of a read, and the broker to ask next. Pure.

Agrees with PullMessageProcessor (4.9.8).
"""

from typing import Final

from hanabi.store.read.queue_reader import GetStatus
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.codes import ResponseCode

MASTER_ID: Final = 0

# Bits of a pull's flag, Java's PullSysFlag.
COMMIT_OFFSET: Final = 1
SUSPEND: Final = 1 << 1
SUBSCRIPTION: Final = 1 << 2

_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_EMPTY: Final = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)


def code_of(status: GetStatus, offset: int) -> ResponseCode:
    """Return the response code of a pull from *offset* that ended with *status*.

    A queue without messages is new to a consumer that starts at 0, and lost to one that was further.
    """
    code = _CODES.get(status)
    if code is None:
        return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return code


def remark_of(status: GetStatus) -> str:
    """Return the status name. Apache creates a queue on demand, so to its clients there is always one."""
    return GetStatus.NO_MESSAGE_IN_QUEUE.value if status in _EMPTY else status.value


def suggested_broker(group: SubscriptionGroupConfig, *, suggests_slave: bool) -> int:
    """Return the id of the broker of this name to pull from next."""
    return group.which_broker_when_consume_slowly if suggests_slave else group.broker_id
