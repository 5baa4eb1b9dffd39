"""One stored message: the record that lies in a commit log and travels in the body of a pull reply.

     0  size             i32   of the whole record
     4  magic            u32   0xDAA320A7, or 0xDAA320AB: a topic length of two bytes
     8  body crc         i32   CRC32 of the body without its highest bit
    12  queue id         i32
    16  flag             i32   the user's
    20  queue offset     i64   ┐ known only when the record gets its place:
    28  log offset       i64   ┘ see `place_record`
    36  system flag      i32   bits 4 and 5 say how long the two hosts are; see `sysflag`
    40  born timestamp   i64   milliseconds
    48  born host        8 bytes, IPv6 20; see `hosts`
    56  store timestamp  i64   (from here on 12 bytes later when the born host is IPv6)
    64  store host       8 bytes, IPv6 20
    72  reconsume times  i32
    76  prepared offset  i64   of a transaction's first half
    84  body length      i32, body
        topic length     u8 (i16 with the second magic), topic
        property length  i16, properties

A log segment ends with a filler, of which only this is defined:

     0  size             i32   up to the end of the segment
     4  magic            u32   0xCBD43194

The CRC covers the body alone. All lengths are checked before anything is cut out. Agrees with Java's CommitLog
(append callback, checkMessageAndReturnSize), MessageDecoder and, for the second magic, 5.x's MessageVersion.

The functions take bytes, a bytearray, a memoryview or a mapped file, and copy only what they return.
"""

import contextlib
import os
import struct
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.message import hosts, sysflag
from hanabi.wire.message.crc import crc32
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, indexed_properties
from hanabi.wire.message.tags import tags_code

if TYPE_CHECKING:
    from mmap import mmap

    Readable: TypeAlias = bytes | bytearray | memoryview | mmap
    Writable: TypeAlias = bytearray | memoryview | mmap

MAGIC: Final = 0xDAA320A7
MAGIC_LONG_TOPIC: Final = 0xDAA320AB  # Java: MESSAGE_MAGIC_CODE_V2
MAGIC_BLANK: Final = 0xCBD43194

BLANK_BYTES_MIN: Final = 8
TOPIC_BYTES_MAX: Final = 127  # a signed byte in Java; longer topics need the second magic
LONG_TOPIC_BYTES_MAX: Final = 32_767

_SYS_FLAG_LOW_BYTE: Final = 39
_BLANK = struct.Struct(">iI")
_OFFSETS_AT: Final = 20
_OFFSETS = struct.Struct(">qq")
_STORE_TIMESTAMP_AT: Final = (56, 68)  # behind a born host of IPv4, of IPv6
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")
# Everything before the body is one unpack. The index is two bits of the system flag: 1 born, 2 store host is IPv6.
_HEADS = tuple(
    struct.Struct(f">iIiiiqqiq{born}sq{store}siqi")
    for store in (hosts.V4_BYTES, hosts.V6_BYTES)
    for born in (hosts.V4_BYTES, hosts.V6_BYTES)
)
_HEAD_V4_BYTES: Final = _HEADS[0].size
_V6_BIT = {hosts.V4_BYTES: 0, hosts.V6_BYTES: 1}


def body_crc(body: "bytes | bytearray | memoryview") -> int:
    """Return the checksum a record keeps of *body*. Java clears the highest bit, so that the number is never
    negative."""
    return crc32(body) & 0x7FFF_FFFF


def encode_record(
    *,
    topic: bytes,
    body: "bytes | bytearray | memoryview",
    properties: bytes = b"",
    queue_id: int,
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int = 0,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    queue_offset: int = 0,
    log_offset: int = 0,
    crc: int | None = None,
    magic: int | None = None,
) -> bytearray:
    """Return a record. Fields that are unknown yet are filled in later, with `place_record`.

    The system flag's bits for IPv6 are set from the hosts; the magic, when not given, from the topic's length.
    """
    topic_bytes, properties_bytes, body_bytes = len(topic), len(properties), len(body)
    if magic is None:
        magic = MAGIC if topic_bytes <= TOPIC_BYTES_MAX else MAGIC_LONG_TOPIC
    if magic == MAGIC and topic_bytes <= TOPIC_BYTES_MAX:
        topic_length = topic_bytes.to_bytes(1, "big")
    elif magic == MAGIC_LONG_TOPIC and topic_bytes <= LONG_TOPIC_BYTES_MAX:
        topic_length = _I16.pack(topic_bytes)
    else:
        raise MQError(f"no record with magic {magic:#x} has room for a topic of {topic_bytes} bytes")
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise MQError(f"properties of {properties_bytes} bytes, limit {PROPERTIES_BYTES_MAX}")
    try:
        family = _V6_BIT[len(born_host)] | _V6_BIT[len(store_host)] << 1
        head = _HEADS[family]
        head_bytes = head.pack(
            head.size + body_bytes + len(topic_length) + topic_bytes + 2 + properties_bytes,
            magic,
            crc32(body) & 0x7FFF_FFFF if crc is None else crc,
            queue_id,
            flag,
            queue_offset,
            log_offset,
            sys_flag & ~sysflag.HOSTS_V6 | family << 4,
            born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            reconsume_times,
            prepared_offset,
            body_bytes,
        )
    except KeyError as error:
        raise MQError(f"a host has {hosts.V4_BYTES} or {hosts.V6_BYTES} bytes, not {error}") from error
    except struct.error as error:
        raise MQError(f"a record cannot hold this: {error}") from error
    return bytearray().join((head_bytes, body, topic_length, topic, _I16.pack(properties_bytes), properties))


def place_record(
    record: "Writable", position: int, *, queue_offset: int, log_offset: int, store_timestamp_ms: int
) -> None:
    """Write the fields that are known only at the append into the record at *position*."""
    _OFFSETS.pack_into(record, position + _OFFSETS_AT, queue_offset, log_offset)
    born_v6 = record[position + _SYS_FLAG_LOW_BYTE] >> 4 & 1
    _I64.pack_into(record, position + _STORE_TIMESTAMP_AT[born_v6], store_timestamp_ms)


def encode_blank(size: int) -> bytes:
    """Return the start of a filler of *size* bytes; the bytes from there to the segment's end have no meaning."""
    if size < BLANK_BYTES_MIN:
        raise MQError(f"a filler of {size} bytes has no room for itself: every append leaves {BLANK_BYTES_MIN}")
    return _BLANK.pack(size, MAGIC_BLANK)


class Record(msgspec.Struct, frozen=True, gc=False):
    """Every field of a record, in the order of its layout. Encodes to the bytes that it was decoded from,
    unless the topic was not UTF-8.

    The body is as stored, perhaps compressed; properties and hosts are undecoded. `stored.to_message` turns all
    of it into what a program wants to see.
    """

    magic: int
    crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: bytes
    size: int

    def encode(self) -> bytes:
        return bytes(
            encode_record(
                topic=self.topic.encode(),
                body=self.body,
                properties=self.properties,
                queue_id=self.queue_id,
                flag=self.flag,
                sys_flag=self.sys_flag,
                born_timestamp_ms=self.born_timestamp_ms,
                born_host=self.born_host,
                store_timestamp_ms=self.store_timestamp_ms,
                store_host=self.store_host,
                reconsume_times=self.reconsume_times,
                prepared_offset=self.prepared_offset,
                queue_offset=self.queue_offset,
                log_offset=self.log_offset,
                crc=self.crc,
                magic=self.magic,
            )
        )


def _boundaries(buffer: "Readable", position: int, end: int) -> tuple[struct.Struct, int, int, int, int, int]:
    """Return the boundaries of the record at *position*: its head, then those of body, topic and properties.

    Returns head, body start, body end, topic start, topic end, properties start; these end where the record does.
    Any record that is not whole before *end* raises.
    """
    left = end - position
    if left < _HEAD_V4_BYTES:
        raise RemoteProtocolError(f"record at {position}: {left} bytes left, its head has {_HEAD_V4_BYTES}")
    size, magic = _BLANK.unpack_from(buffer, position)
    if magic == MAGIC:
        topic_length_bytes = 1
    elif magic == MAGIC_LONG_TOPIC:
        topic_length_bytes = 2
    else:
        raise RemoteProtocolError(f"record at {position}: unknown magic {magic:#010x}")
    head = _HEADS[buffer[position + _SYS_FLAG_LOW_BYTE] >> 4 & 3]
    body_start = position + head.size
    record_end = position + size
    if record_end > end or body_start + topic_length_bytes + 2 > record_end:
        raise RemoteProtocolError(f"record at {position}: size {size}, {left} bytes left")
    (body_bytes,) = _I32.unpack_from(buffer, body_start - 4)
    body_end = body_start + body_bytes
    topic_start = body_end + topic_length_bytes
    if body_bytes < 0 or topic_start + 2 > record_end:
        raise RemoteProtocolError(f"record at {position}: body of {body_bytes} bytes in a record of {size}")
    if topic_length_bytes == 1:
        topic_bytes = buffer[body_end]
    else:
        (topic_bytes,) = _I16.unpack_from(buffer, body_end)
    topic_end = topic_start + topic_bytes
    if topic_bytes < 0 or topic_end + 2 > record_end or (topic_length_bytes == 1 and topic_bytes > TOPIC_BYTES_MAX):
        raise RemoteProtocolError(f"record at {position}: topic of {topic_bytes} bytes in a record of {size}")
    (properties_bytes,) = _I16.unpack_from(buffer, topic_end)
    if topic_end + 2 + properties_bytes != record_end:
        raise RemoteProtocolError(
            f"record at {position}: size {size}, but its parts end at {topic_end + 2 + properties_bytes - position}"
        )
    return head, body_start, body_end, topic_start, topic_end, topic_end + 2


def decode_record(buffer: "Readable", position: int = 0, end: int | None = None, *, check_crc: bool = True) -> Record:
    """Return the record at *position*, which must be whole before *end*.

    As in Java, a topic that is not UTF-8 is read with replacements, and an empty body has no checksum.
    """
    if end is None:
        end = len(buffer)
    head, body_start, body_end, topic_start, topic_end, properties_start = _boundaries(buffer, position, end)
    (
        size,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        sys_flag,
        born_timestamp_ms,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_bytes,
    ) = head.unpack_from(buffer, position)
    body = bytes(buffer[body_start:body_end])
    if check_crc and body_bytes and crc32(body) & 0x7FFF_FFFF != crc:
        raise RemoteProtocolError(_crc_mismatch(position, crc, body))
    return Record(
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        sys_flag,
        born_timestamp_ms,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body,
        str(buffer[topic_start:topic_end], "utf-8", "replace"),
        bytes(buffer[properties_start : position + size]),
        size,
    )


def _crc_mismatch(position: int, crc: int, body: bytes) -> str:
    return f"record at {position}: its body has CRC {body_crc(body):#010x}, the record says {crc:#010x}"


def decode_records(buffer: "Readable", *, check_crc: bool = True) -> list[Record]:
    """Return the records in *buffer*, one behind the other and nothing else, as in the body of a pull reply."""
    records: list[Record] = []
    position, end = 0, len(buffer)
    while position < end:
        record = decode_record(buffer, position, end, check_crc=check_crc)
        records.append(record)
        position += record.size
    return records


def record_properties(buffer: "Readable", position: int = 0, end: int | None = None) -> bytes:
    """Return the properties of the record at *position*, undecoded: all that a filter wants to see of it."""
    if end is None:
        end = len(buffer)
    properties_start = _boundaries(buffer, position, end)[5]
    (size,) = _I32.unpack_from(buffer, position)
    return bytes(buffer[properties_start : position + size])


class RecordState(Enum):
    """The kind of content at a place in a log."""

    WHOLE = "whole"  # a record; the next one may follow `size` bytes later
    BLANK = "blank"  # filler: the log goes on in the next segment
    UNWRITTEN = "unwritten"  # zeros, as a preallocated file has them where nothing was written
    INVALID = "invalid"  # a torn write, or bits that changed


class Checked(NamedTuple):
    """The answer of `check_record`. `size` is 0 and `reason` a sentence when the record is not whole or filler."""

    state: RecordState
    size: int
    reason: str = ""


def check_record(buffer: "Readable", position: int = 0, end: int | None = None, *, check_crc: bool = True) -> Checked:
    """Check the bytes at *position*; never raises because of their content.

    The size in a filler is returned but not checked: Java continues in the next segment in any case, and a log must
    not end where one filler has a bad bit.
    """
    if end is None:
        end = len(buffer)
    if end - position >= BLANK_BYTES_MIN:
        size, magic = _BLANK.unpack_from(buffer, position)
        if magic == MAGIC_BLANK:
            return Checked(RecordState.BLANK, size)
        if magic == 0 and size == 0:
            return Checked(RecordState.UNWRITTEN, 0, f"nothing is written at {position}")
    try:
        _, body_start, body_end, _, _, _ = _boundaries(buffer, position, end)
    except RemoteProtocolError as error:
        return Checked(RecordState.INVALID, 0, str(error))
    if check_crc and body_end > body_start:
        body = bytes(buffer[body_start:body_end])
        (crc,) = _I32.unpack_from(buffer, position + 8)
        if body_crc(body) != crc:
            return Checked(RecordState.INVALID, 0, _crc_mismatch(position, crc, body))
    return Checked(RecordState.WHOLE, size)


def scan_records(
    buffer: "Readable", position: int = 0, end: int | None = None, *, check_crc: bool = True
) -> Iterator[tuple[int, Checked]]:
    """Walk over a log segment: yield each record's position and state.

    The last one yielded is the first that is not whole; when all are, the walk ends at *end*.
    """
    if end is None:
        end = len(buffer)
    while position < end:
        checked = check_record(buffer, position, end, check_crc=check_crc)
        yield position, checked
        if checked.state is not RecordState.WHOLE:
            return
        position += checked.size


# The fields that identify a record, in one unpack where both hosts are IPv4: size, magic, CRC, queue id, queue offset,
# log offset, low byte of the system flag, body length.
_IDENTITY_V4 = struct.Struct(">iIii4xqq3xB44xi")


def topic_field(topic: bytes) -> bytes:
    """Return *topic* as it lies in a record, with its length, for `is_record`."""
    return bytes((len(topic),)) + topic if len(topic) <= TOPIC_BYTES_MAX else _I16.pack(len(topic)) + topic


def is_record(
    buffer: "Readable",
    position: int,
    size: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    check_crc: bool,
) -> bool:
    """Return whether the record at *position* is this one: an entry that points at it may have a bad bit.

    *size* bytes must be there; *topic* is a `topic_field`.
    """
    if size < _HEAD_V4_BYTES:
        return False
    found_size, magic, crc, found_queue_id, found_queue_offset, found_log_offset, flags, body_bytes = (
        _IDENTITY_V4.unpack_from(buffer, position)
    )
    if (
        found_size != size
        or found_log_offset != log_offset
        or found_queue_offset != queue_offset
        or found_queue_id != queue_id
        or (magic != MAGIC and magic != MAGIC_LONG_TOPIC)
    ):
        return False
    body_start = position + _HEAD_V4_BYTES
    if flags & sysflag.HOSTS_V6:
        body_start = position + _HEADS[flags >> 4 & 3].size
        if body_start > position + size:
            return False
        (body_bytes,) = _I32.unpack_from(buffer, body_start - 4)
    body_end = body_start + body_bytes
    if body_bytes < 0 or body_end + len(topic) > position + size or buffer[body_end : body_end + len(topic)] != topic:
        return False
    return not check_crc or not body_bytes or crc32(buffer[body_start:body_end]) & 0x7FFF_FFFF == crc


class Dispatch(NamedTuple):
    """The fields of a record that the consume queues and the key index need.

    `tags_code` is the hash of the tags. For a delayed message the store keeps the time of delivery in its place:
    it finds the level among the `properties`, which are undecoded.
    """

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    keys: str
    unique_key: str | None
    sys_flag: int
    prepared_offset: int
    properties: bytes


def decode_dispatch(
    buffer: "Readable", position: int = 0, end: int | None = None, *, check_crc: bool = False
) -> Dispatch:
    """Read the dispatch fields of the record at *position*: lengths are checked, the body is not copied."""
    if end is None:
        end = len(buffer)
    head, body_start, body_end, topic_start, topic_end, properties_start = _boundaries(buffer, position, end)
    (
        size,
        _,
        crc,
        queue_id,
        _,
        queue_offset,
        log_offset,
        sys_flag,
        _,
        _,
        store_timestamp_ms,
        _,
        _,
        prepared_offset,
        _,
    ) = head.unpack_from(buffer, position)
    if check_crc and body_end > body_start and crc32(buffer[body_start:body_end]) & 0x7FFF_FFFF != crc:
        raise RemoteProtocolError(_crc_mismatch(position, crc, bytes(buffer[body_start:body_end])))
    properties = bytes(buffer[properties_start : position + size])
    tags, keys, unique_key = indexed_properties(properties)
    return Dispatch(
        str(buffer[topic_start:topic_end], "utf-8", "replace"),
        queue_id,
        queue_offset,
        log_offset,
        size,
        tags_code(tags),
        store_timestamp_ms,
        keys or "",
        unique_key,
        sys_flag,
        prepared_offset,
        properties,
    )


# The compiled versions of the hot functions (see `_speedups`); the code above is their specification.
python_encode_record, python_is_record, python_decode_dispatch = encode_record, is_record, decode_dispatch
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.wire.message._speedups import decode_dispatch, encode_record, is_record
