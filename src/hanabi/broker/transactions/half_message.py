"""Half message: its form on disk, and all messages made from it.

    sent, type prepared ──to_half──> RMQ_SYS_TRANS_HALF_TOPIC, queue 0, type none, REAL_TOPIC and REAL_QID added
    half ──to_final──> its real topic, type commit, prepared offset = log offset of the half
         ──to_op─────> RMQ_SYS_TRANS_OP_HALF_TOPIC, tag "d": "the half message with this queue offset has ended"
         ──renewed───> the same again at the end of the half queue, with one check more
         ──given_up──> TRANS_CHECK_MAX_TIME_TOPIC

Values in, values out: no store, no clock. Agrees with TransactionalMessageBridge, EndTransactionProcessor and
DefaultTransactionalMessageCheckListener (4.9.8). As there, the final message keeps REAL_TOPIC, REAL_QID and TRAN_MSG
among its properties (Apache removes them from its own copy after the bytes were made). Unlike there, a renewed half
message keeps the user's flag.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from hanabi.store.log.commit_log import AppendResult, PendingMessage
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.java_hash_map import encode_again
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, decode_properties, find_property
from hanabi.wire.message.record import Record, encode_record
from hanabi.wire.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC

QUEUE_ID: Final = 0  # both topics have one queue
REMOVE_TAG: Final = "d"
OP_PROPERTIES: Final = b"WAIT\x01true\x02TAGS\x01d"
INT32_MAX: Final = 2**31 - 1

# A transaction cannot be delayed: Java's producer silently removes the level; the broker does so for other producers.
_NOT_WITH_TRANSACTIONS: Final = (
    names.DELAY_LEVEL,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TIMER_DELIVER_MS,
)


_NOTES: Final = f"\x02{names.TRANSACTION_CHECK_TIMES}\x01\x02{names.TRANSACTION_PREPARED_QUEUE_OFFSET}\x01"
_NOTES_BYTES: Final = len(_NOTES) + 40  # with their numbers
ROOM_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - _NOTES_BYTES  # of a new half message: its copies have notes in addition


def to_half(message: PendingMessage) -> PendingMessage:
    """Return *message* in the form in which it waits for the end of its transaction."""
    properties = decode_properties(message.properties)
    for name in _NOT_WITH_TRANSACTIONS:
        properties.pop(name, None)
    if message.properties.endswith(b"\x02") and (unique_key := properties.get(names.UNIQUE_KEY)):
        properties[names.TRANSACTION_ID] = unique_key  # as 5.x does
    properties |= {names.REAL_TOPIC: message.topic, names.REAL_QUEUE_ID: str(message.queue_id)}
    return msgspec.structs.replace(
        message,
        topic=HALF_TOPIC,
        queue_id=QUEUE_ID,
        properties=encode_again(properties, message.properties),
        sys_flag=sysflag.with_transaction_type(message.sys_flag, sysflag.TRANSACTION_NONE),
    )


class HalfMessage(msgspec.Struct, frozen=True, gc=False):
    """A half message in the store. Fields from the peer are None if their values are impossible."""

    record: Record
    properties: dict[str, str]

    @classmethod
    def of(cls, record: Record) -> "HalfMessage":
        return cls(record, decode_properties(record.properties))

    @property
    def real_topic(self) -> str | None:
        return self.properties.get(names.REAL_TOPIC)

    @property
    def real_queue_id(self) -> int | None:
        number = _number(self.properties.get(names.REAL_QUEUE_ID))
        return number if number is not None and 0 <= number <= INT32_MAX else None

    @property
    def group(self) -> str | None:
        return self.properties.get(names.PRODUCER_GROUP)

    @property
    def unique_key(self) -> str | None:
        return self.properties.get(names.UNIQUE_KEY)

    @property
    def check_times(self) -> int:
        """Number of check-backs so far."""
        return max(_number(self.properties.get(names.TRANSACTION_CHECK_TIMES)) or 0, 0)

    @property
    def immunity_ms(self) -> int | None:
        """Time for which its producer asked not to be checked; None: the broker's default."""
        seconds = _number(self.properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS))
        return seconds * 1000 if seconds is not None and seconds != -1 else None

    @property
    def prepared_queue_offset(self) -> int | None:
        """Queue offset of the first copy, if this one was made before its check-back was due."""
        return _number(self.properties.get(names.TRANSACTION_PREPARED_QUEUE_OFFSET))

    @property
    def is_copy(self) -> bool:
        """Return whether an older copy of it may have been ended."""
        return (
            names.TRANSACTION_CHECK_TIMES in self.properties
            or names.TRANSACTION_PREPARED_QUEUE_OFFSET in self.properties
        )


def to_final(half: HalfMessage, real_topic: str, real_queue_id: int) -> PendingMessage:
    """Return the message for consumers."""
    return _from_record(
        half.record,
        topic=real_topic,
        queue_id=real_queue_id,
        sys_flag=sysflag.with_transaction_type(half.record.sys_flag, sysflag.TRANSACTION_COMMIT),
        prepared_offset=half.record.log_offset,
    )


def to_op(record: Record, now_ms: int) -> PendingMessage:
    """Return the op message that records the end of *record*. Its host is that of the half message: our own."""
    return PendingMessage(
        OP_HALF_TOPIC,
        QUEUE_ID,
        b"%d" % record.queue_offset,
        OP_PROPERTIES,
        born_timestamp_ms=now_ms,
        born_host=record.store_host,
        store_host=record.store_host,
    )


def renewed(half: HalfMessage) -> PendingMessage:
    """Return the copy for a check-back, with one more check counted."""
    return _with_properties(half, {names.TRANSACTION_CHECK_TIMES: str(half.check_times + 1)})


def renewed_unasked(half: HalfMessage) -> PendingMessage:
    """Return the copy of a message that is not due for a check-back yet, so that those behind it need not wait.

    Producers end it by the offset of its first copy, which it therefore carries. It counts as no check. (It does in
    Apache, so that with a long immunity a message is given up before any producer was asked.)
    """
    first = half.prepared_queue_offset
    place = half.record.queue_offset if first is None or first < 0 else first
    return _with_properties(half, {names.TRANSACTION_PREPARED_QUEUE_OFFSET: str(place)})


def can_be_renewed(half: HalfMessage) -> bool:
    """Return whether copies of *half*, with their notes in addition to its properties, are short enough."""
    return all(len(copy.properties) <= PROPERTIES_BYTES_MAX for copy in (renewed(half), renewed_unasked(half)))


def given_up(half: HalfMessage) -> PendingMessage:
    """Return the message to store for a half message that is given up."""
    return _from_record(half.record, topic=CHECK_MAX_TIME_TOPIC, queue_id=0)


def revived(half: HalfMessage) -> PendingMessage:
    """Return the half message with its checks reset, on an administrator's request."""
    return _with_properties(half, {names.TRANSACTION_CHECK_TIMES: "0"})


def check_request(
    half: HalfMessage, copy: PendingMessage, place: AppendResult
) -> tuple[CheckTransactionStateHeader, bytes] | None:
    """Return header and body of the check-back to the producer: *half* was stored again as *copy*, at *place*."""
    topic, queue_id = half.real_topic, half.real_queue_id
    if topic is None or queue_id is None:
        return None
    header = CheckTransactionStateHeader(
        tran_state_table_offset=place.queue_offset,
        commit_log_offset=place.log_offset,
        msg_id=half.unique_key,
        transaction_id=half.unique_key,
        offset_msg_id=place.offset_message_id,
    )
    record = half.record
    body = encode_record(
        topic=topic.encode(),
        body=record.body,
        properties=copy.properties,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_timestamp_ms=record.store_timestamp_ms,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
        queue_offset=place.queue_offset,
        log_offset=place.log_offset,
        crc=record.crc,
    )
    return header, bytes(body)


def ended_offsets(op: Record) -> list[int]:
    """Return the queue offsets of the half messages that *op* ended: one from 4.9.x, several from 5.x ("7,9,")."""
    if find_property(op.properties, b"TAGS") != REMOVE_TAG:
        return []
    numbers = (_number(text) for text in op.body.decode("ascii", "replace").split(","))
    return [number for number in numbers if number is not None and number >= 0]


def _from_record(
    record: Record,
    *,
    topic: str,
    queue_id: int,
    properties: bytes | None = None,
    sys_flag: int | None = None,
    prepared_offset: int = 0,
) -> PendingMessage:
    return PendingMessage(
        topic,
        queue_id,
        record.body,
        record.properties if properties is None else properties,
        record.born_timestamp_ms,
        record.born_host,
        record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag if sys_flag is None else sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_offset=prepared_offset,
        is_stored=True,
    )


def _with_properties(half: HalfMessage, changes: Mapping[str, str]) -> PendingMessage:
    properties = encode_again({**half.properties, **changes}, half.record.properties)
    return _from_record(half.record, topic=HALF_TOPIC, queue_id=QUEUE_ID, properties=properties)


def _number(text: str | None) -> int | None:
    """Parse as Long.parseLong: digits with a sign, and nothing else."""
    if text is None or len(text) > 20:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() else None
