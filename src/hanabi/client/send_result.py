"""Results of sends: values without behaviour.

Agrees with Java's SendResult, SendStatus, TransactionSendResult and LocalTransactionState.
"""

from enum import Enum, IntEnum

import msgspec

from hanabi.message import MessageQueue
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message import sysflag


class SendStatus(Enum):
    """Safety of a stored message; in all four cases the broker has it."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # not on its disk in time
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # not at its slave in time
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # no slave is close enough to wait for

    def __str__(self) -> str:
        return self.name


STATUS_BY_CODE = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Location of a stored message, and its ids."""

    status: SendStatus
    message_id: str  # made by this client
    queue: MessageQueue
    queue_offset: int
    offset_message_id: str  # made by the broker: its address and log offset
    transaction_id: str | None = None
    region: str | None = None
    trace_on: bool = True  # false: the broker does not want it traced
    recall_handle: str | None = None  # of a timed message: see `Producer.recall`

    def __str__(self) -> str:
        return f"{self.status}: {self.queue}, offset {self.queue_offset}, message id {self.message_id}"


class TransactionState(IntEnum):
    """State of a local transaction; the numbers are those on the wire."""

    COMMIT = sysflag.TRANSACTION_COMMIT
    ROLLBACK = sysflag.TRANSACTION_ROLLBACK
    UNKNOWN = sysflag.TRANSACTION_NONE  # the broker asks again later

    def __str__(self) -> str:
        return self.name


class TransactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a message in a transaction: the location of its half message, and the state of the local part.

    `error` is the exception of the local part; the state is then unknown, and the broker asks for it later.
    """

    send: SendResult
    state: TransactionState
    error: BaseException | None = None

    def __str__(self) -> str:
        failed = "" if self.error is None else f", local part failed: {self.error!r}"
        return f"{self.state}: {self.send.queue}, message id {self.send.message_id}{failed}"
