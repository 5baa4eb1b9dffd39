"""Handles that clients only echo: the receipt of a message, the id of a transaction. No server keeps them.

receipt handle     the receipt of POP, and the commit log offset as its ninth word
transaction id     URL-safe base64 of: version, broker, half queue offset, commit log offset, message id
recall handle      a broker's own: URL-safe base64 of version, topic, broker, time, message id
"""

import base64
import binascii
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.faults import CallRefused
from hanabi.wire.receipts import Receipt, decode_receipt

_VERSION: Final = "v1"
_CHARACTERS_MAX: Final = 2_048
_MARKS: Final = frozenset("012")


class Handle(NamedTuple):
    """One receipt handle, taken apart."""

    receipt: Receipt
    log_offset: int  # -1: unknown

    def encode(self) -> str:
        """Return the text of the handle."""
        return f"{self.receipt.encode()} {self.log_offset}"


def read_handle(text: str) -> Handle:
    """Return the handle in *text*."""
    try:
        receipt = decode_receipt(text)
        words = text.split(" ", 9)
        log_offset = int(words[8]) if len(words) > 8 and len(words[8]) <= 20 else -1
    except (RemoteProtocolError, ValueError) as error:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, f"the receipt handle is damaged: {error}") from error
    if receipt.queue_id < 0 or receipt.offset < 0 or receipt.mark not in _MARKS:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle names no message")
    return Handle(receipt, log_offset)


def valid_handle(text: str, now_ms: int) -> Handle:
    """Return the handle in *text* if its invisible time has not ended."""
    handle = read_handle(text)
    if handle.receipt.pop_ms + handle.receipt.invisible_ms < now_ms:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")
    return handle


class Transaction(NamedTuple):
    """The place of a half message."""

    broker_name: str
    queue_offset: int
    log_offset: int
    message_id: str

    def encode(self) -> str:
        """Return the transaction id."""
        text = f"{_VERSION} {self.broker_name} {self.queue_offset} {self.log_offset} {self.message_id}"
        return base64.urlsafe_b64encode(text.encode()).decode()


def read_transaction(text: str) -> Transaction:
    """Return the place that a transaction id names."""
    try:
        if len(text) > _CHARACTERS_MAX:
            raise ValueError("too long")
        version, broker, queue_offset, log_offset, message_id = (
            base64.b64decode(text, b"-_", validate=True).decode().split(" ")
        )
        if version != _VERSION or max(len(queue_offset), len(log_offset)) > 20:
            raise ValueError("unknown form")
        place = Transaction(broker, int(queue_offset), int(log_offset), message_id)
    except (ValueError, binascii.Error) as error:
        raise CallRefused(Code.INVALID_TRANSACTION_ID, "the transaction id is not one of this server") from error
    if place.queue_offset < 0 or place.log_offset < 0:
        raise CallRefused(Code.INVALID_TRANSACTION_ID, "the transaction id is not one of this server")
    return place


def broker_of_recall(text: str) -> str | None:
    """Return the broker that made a recall handle; None if it is damaged, which its reader says."""
    if len(text) > _CHARACTERS_MAX:
        return None
    try:
        words = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().split(" ")
    except (ValueError, binascii.Error):
        return None
    return words[2] if len(words) == 5 else None
