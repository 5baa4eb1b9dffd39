"""Faults of a call as a status of `apache.rocketmq.v2`: which code stands for which reply of a broker."""

from typing import Final

from hanabi.errors import MQError
from hanabi.grpc.proto.numbers import Code
from hanabi.wire.codes import ResponseCode


class CallRefused(MQError):
    """A call is answered with a status that is not OK, after *delay_seconds*."""

    def __init__(self, status: Code, message: str, delay_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.delay_seconds = status, delay_seconds


_CODES: Final[dict[int, Code]] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_TIMEOUT: Code.MESSAGE_NOT_FOUND,
    ResponseCode.NO_MESSAGE: Code.INVALID_RECEIPT_HANDLE,
}


def code_of(reply_code: int) -> Code:
    """Return the code of a status for the response code of a broker."""
    return _CODES.get(reply_code, Code.INTERNAL_SERVER_ERROR)


def delay_of(error: MQError) -> float:
    """Return how many seconds the answer to *error* waits."""
    return error.delay_seconds if isinstance(error, CallRefused) else 0.0


def fault_of(error: MQError) -> tuple[Code, str]:
    """Return code and message of a status for *error*."""
    if isinstance(error, CallRefused):
        return error.status, str(error)
    return code_of(error.code), str(error)
