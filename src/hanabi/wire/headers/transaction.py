"""Headers of transactional messages: their ends, and the check of an open one. Numbers are request codes.

The message itself travels as any other; a bit of its system flag makes it a half message.
"""

from hanabi.wire.header import Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class EndTransactionHeader(AddressedHeader, frozen=True, kw_only=True):
    """37: commit a half message or roll it back; one-way from Java clients."""

    producer_group: str
    tran_state_table_offset: Int64  # in the queue of half messages
    commit_log_offset: Int64
    commit_or_rollback: Int32  # transaction bits of a system flag: 0 unknown, 8 commit, 12 roll back
    msg_id: str
    from_transaction_check: bool = False  # the broker asked
    transaction_id: str | None = None
    topic: str | None = None  # 5.x


class CheckTransactionStateHeader(AddressedHeader, frozen=True, kw_only=True):
    """39, broker to client: how did the transaction of the half message in the body end?"""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None  # 5.x


class ResumeCheckHalfMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """323: ask again about a half message that the broker has given up."""

    msg_id: str | None = None
    topic: str | None = None  # 5.x
