"""A record as a message that a program reads: unpacked, with its properties and ids."""

from hanabi.message import StoredMessage
from hanabi.wire import property_names as names
from hanabi.wire.compression import BODY_BYTES_MAX, decompress
from hanabi.wire.hosts import decode_host
from hanabi.wire.message_id import encode_offset_id
from hanabi.wire.properties import decode_properties
from hanabi.wire.record import Record


def to_message(record: Record, *, broker_name: str = "", body_bytes_max: int = BODY_BYTES_MAX) -> StoredMessage:
    """*record* with its body decompressed and everything else decoded."""
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
