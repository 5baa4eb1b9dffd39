"""A record as a message that a program reads: unpacked, with its properties and ids."""

import contextlib
import os

import msgspec

from hanabi.errors import MQError
from hanabi.message import StoredMessage
from hanabi.wire.message import property_names as names
from hanabi.wire.message.compression import BODY_BYTES_MAX, decompress
from hanabi.wire.message.hosts import decode_host
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.message.record import Record, decode_record


def to_message(record: Record, *, broker_name: str = "", body_bytes_max: int = BODY_BYTES_MAX) -> StoredMessage:
    """Decode *record*, with its body decompressed."""
    properties = decode_properties(record.properties)
    offset_message_id = encode_offset_id(record.store_host, record.log_offset)
    return StoredMessage(
        topic=record.topic,
        body=decompress(record.body, record.sys_flag, body_bytes_max),
        tags=properties.get(names.TAGS),
        keys=tuple(properties.get(names.KEYS, "").split()),
        properties=properties,
        flag=record.flag,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        message_id=properties.get(names.UNIQUE_KEY, offset_message_id),
        offset_message_id=offset_message_id,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=decode_host(record.born_host),
        store_timestamp_ms=record.store_timestamp_ms,
        store_host=decode_host(record.store_host),
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
        sys_flag=record.sys_flag,
        log_offset=record.log_offset,
        size=record.size,
        body_crc=record.crc,
        broker_name=broker_name,
    )


def message_at(
    records: bytes, position: int, broker_name: str = "", offset_delta: int = 0
) -> tuple[StoredMessage, int]:
    """Return the message at *position*, and the size of its record; a record that cannot be read raises."""
    record = decode_record(records, position)
    message = to_message(record, broker_name=broker_name)
    if offset_delta:
        message = msgspec.structs.replace(message, queue_offset=message.queue_offset + offset_delta)
    return message, record.size


def to_messages(
    records: bytes, broker_name: str = "", offset_delta: int = 0
) -> tuple[list[StoredMessage], MQError | None]:
    """Return the messages in *records*, which lie one behind the other as in the body of a pull reply.

    If one cannot be read, those before it and the reason why. *offset_delta* is added to each queue offset.
    """
    messages: list[StoredMessage] = []
    position, end = 0, len(records)
    try:
        while position < end:
            message, size = message_at(records, position, broker_name, offset_delta)
            messages.append(message)
            position += size
    except MQError as error:
        return messages, error
    return messages, None


# The compiled version for every consumed message (see `_speedups`); the code above is its specification.
python_to_messages = to_messages
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.wire.message._speedups import to_messages
