"""What became of a message that was sent: values without behaviour.

Agrees with Java's SendResult, SendStatus, TransactionSendResult and LocalTransactionState.
"""

from enum import Enum, IntEnum

import msgspec

from hanabi.message import MessageQueue
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message import sysflag


class SendStatus(Enum):
    """How safely the message is stored; in all four cases the broker has it."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # not on its disk in time
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # not at its slave in time
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # no slave is near enough to be waited for


STATUS_BY_CODE = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a message is stored, and under which names it is found again."""

    status: SendStatus
    message_id: str  # made by this client
    queue: MessageQueue
    queue_offset: int
    offset_message_id: str  # made by the broker: where in whose log
    transaction_id: str | None = None
    region: str | None = None
    trace_on: bool = True  # false: the broker does not want to be told of it


class TransactionState(IntEnum):
    """How a local transaction ended; the numbers are those that travel."""

    COMMIT = sysflag.TRANSACTION_COMMIT
    ROLLBACK = sysflag.TRANSACTION_ROLLBACK
    UNKNOWN = sysflag.TRANSACTION_NONE  # the broker asks again later


class TransactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message in a transaction: where its first half lies, and how the local part ended.

    `error` is what the local part raised; the state is then unknown, and the broker asks for it later.
    """

    send: SendResult
    state: TransactionState
    error: BaseException | None = None
