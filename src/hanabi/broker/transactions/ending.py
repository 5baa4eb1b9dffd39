"""END_TRANSACTION: checks the producer's outcome against the half message, then commits or rolls back.

    commit      the real message, then the op message
    roll back   the op message
    unknown     nothing: the producer will be asked

A crash between the two messages of a commit leaves a half message that seems pending; `copies` detects that. The first
outcome counts: repeating it changes nothing, the contrary is refused. (Apache does it again.) Codes and remarks are
those of EndTransactionProcessor (4.9.8).
"""

import logging
from collections.abc import Callable

from hanabi.broker.transactions.copies import Copies
from hanabi.broker.transactions.ended_halves import End, EndedHalves
from hanabi.broker.transactions.half_message import QUEUE_ID, HalfMessage, to_final, to_op
from hanabi.broker.transactions.ports import Intake
from hanabi.remoting.connection.dispatch import Reply
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.transaction import EndTransactionHeader
from hanabi.wire.message import sysflag
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.message.record import decode_record
from hanabi.wire.system_names import HALF_TOPIC

logger = logging.getLogger(__name__)

_ENDS = {sysflag.TRANSACTION_COMMIT: End.COMMITTED, sysflag.TRANSACTION_ROLLBACK: End.ROLLED_BACK}
_STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class Ending:
    """Ends transactions. `ended` is shared with the check-back, which skips ended ones."""

    def __init__(
        self, store: MessageStore, intake: Intake, ended: EndedHalves, copies: Copies, now_ms: Callable[[], int]
    ) -> None:
        self._store, self._intake, self._now_ms = store, intake, now_ms
        self._ended, self._copies = ended, copies

    def end(self, header: EndTransactionHeader) -> Reply:
        end = _ENDS.get(header.commit_or_rollback)
        if end is None:
            if header.commit_or_rollback == sysflag.TRANSACTION_NONE:
                return Reply()
            return _refuse(f"commitOrRollback {header.commit_or_rollback} is neither commit nor rollback")
        half = self._find(header.commit_log_offset)
        if half is None:
            return _refuse("Find prepared transaction message failed")
        wrong = why_wrong(half, header)
        if wrong:
            return _refuse(wrong)
        before = self._ended.end_of(half.record.queue_offset, half.record.log_offset)
        if before:
            return self._again(half, end, before)
        return self._commit(half) if end is End.COMMITTED else self._roll_back(half)

    def _again(self, half: HalfMessage, end: End, before: End) -> Reply:
        """Answer a repeated end: with success only if the outcome is the same."""
        if before is End.SOMEHOW and end is End.COMMITTED and not self._copies.is_committed(half):
            return _refuse("The transaction has ended already, and no message of it is found")
        if before is End.SOMEHOW:
            before = End.COMMITTED if self._copies.is_committed(half) else End.ROLLED_BACK
        if before is end:
            return Reply()
        how = "committed" if before is End.COMMITTED else "rolled back"
        return _refuse(f"The transaction was {how} already")

    def _find(self, log_offset: int) -> HalfMessage | None:
        view = self._store.queries.queued_record(log_offset)
        if view is None:
            return None
        record = decode_record(view, check_crc=False)  # the store has checked it
        if record.topic != HALF_TOPIC or record.queue_id != QUEUE_ID:
            return None
        return HalfMessage.of(record)

    def _commit(self, half: HalfMessage) -> Reply:
        topic, queue_id = half.real_topic, half.real_queue_id
        if topic is None or queue_id is None:
            return _refuse("The half message does not say where it belongs")
        may_be_second = half.is_copy or half.record.queue_offset < self._ended.half_offset
        if not (may_be_second and self._copies.is_committed(half)):
            refused = _why_not_stored(
                self._intake.put(to_final(half, topic, queue_id)), self._store.config.message_bytes_max
            )
            if refused is not None:
                return refused
        self.write_op(half, End.COMMITTED)
        return Reply()

    def _roll_back(self, half: HalfMessage) -> Reply:
        if not self.write_op(half, End.ROLLED_BACK):
            return _refuse("The end of the transaction cannot be stored")
        return Reply()

    def write_op(self, half: HalfMessage, end: End) -> bool:
        """Record that *half* has ended; return False if the store refuses, and the record is in memory only."""
        offset = half.record.queue_offset
        result = self._intake.put(to_op(half.record, self._now_ms()))
        stored = result.status is PutStatus.PUT_OK
        log_end = self._store.max_log_offset
        if stored:
            op_offset = result.appended[0].queue_offset
            if op_offset == self._ended.next_op:  # all before it have been read, so this one need not be
                self._ended.mark_op(op_offset, [offset], log_end)
        else:
            logger.error("the end of half message %d cannot be stored: %s", offset, result.reason or result.status)
        if stored or end is End.COMMITTED:
            self._ended.mark(offset, end, log_end)
        return stored


def why_wrong(half: HalfMessage, header: EndTransactionHeader) -> str:
    """Return why *header* cannot refer to *half*; empty if it can. The id is checked if both have one, unlike in
    Apache."""
    record = half.record
    if half.group is None or half.group != header.producer_group:
        return "The producer group wrong"
    if record.queue_offset != header.tran_state_table_offset:
        return "The transaction state table offset wrong"
    if record.log_offset != header.commit_log_offset:
        return "The commit log offset wrong"
    key = half.unique_key
    if key and header.msg_id not in ("", key, encode_offset_id(record.store_host, record.log_offset)):
        return "The message id wrong"
    return ""


def _refuse(remark: str) -> Reply:
    return Reply(ResponseCode.SYSTEM_ERROR, remark)


def _why_not_stored(result: PutResult, message_bytes_max: int) -> Reply | None:
    status = result.status
    if status in _STORED:
        return None
    if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
        return Reply(
            ResponseCode.MESSAGE_ILLEGAL,
            "The message is illegal, maybe msg body or properties length not matched. msg body length limit "
            f"{message_bytes_max}B, msg properties length limit 32KB.",
        )
    if status is PutStatus.SERVICE_NOT_AVAILABLE:
        return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "Service not available now.")
    if status is PutStatus.CREATE_MAPPED_FILE_FAILED:
        return Reply(ResponseCode.SYSTEM_ERROR, "Create mapped file failed.")
    if status is PutStatus.OS_PAGECACHE_BUSY:
        return Reply(ResponseCode.SYSTEM_ERROR, "OS page cache busy, please try another machine")
    return Reply(ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR")
