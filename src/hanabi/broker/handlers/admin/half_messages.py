"""Resuming the check of a half message that the broker has given up (323). Agrees with AdminBrokerProcessor (4.9.8)."""

from typing import Protocol

from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.transaction import ResumeCheckHalfMessageHeader


class ResumesCheck(Protocol):
    """Keeper of half messages."""

    def resume_check(self, message_id: str) -> PutResult: ...


def half_message_handlers(transactions: ResumesCheck) -> dict[int, Handler]:
    """Return the administrator's handlers of half messages."""

    def resume(header: ResumeCheckHalfMessageHeader, _: Command, connection: Connection) -> Reply:
        result = transactions.resume_check(header.msg_id or "")
        if result.status is not PutStatus.PUT_OK:
            return Reply(
                ResponseCode.SYSTEM_ERROR,
                f"Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. {result.status.value} {result.reason}",
            )
        return Reply()

    return {
        RequestCode.RESUME_CHECK_HALF_MESSAGE: Handler(ResumeCheckHalfMessageHeader, resume, NO_BODY_BYTES_MAX),
    }
