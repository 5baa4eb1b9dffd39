"""Topic settings and their versions, and the body of a broker's registration with a name server.

A register body is JSON, or Java's own compressed layout: a zlib stream around parts, each behind its length (i32):

    ┌──────────────┬─────────────────┬─────────────────────────┬────────────────────┬──────────────────────────────┐
    │ data version │ topics: i32     │ a line of text a topic  │ filter servers     │ 5.x only                     │
    │ JSON         │ (a count)       │ ...                     │ JSON list          │ mappings: i32, a JSON each   │
    └──────────────┴─────────────────┴─────────────────────────┴────────────────────┴──────────────────────────────┘

    line:  NAME READ_QUEUES WRITE_QUEUES PERM FILTER_TYPE            5.x adds: ATTRIBUTES, as a JSON object

Agrees with Java's TopicConfig, DataVersion, TopicConfigSerializeWrapper (5.x: TopicConfigAndMappingSerializeWrapper),
CreateTopicListRequestBody and RegisterBrokerBody. Java reads the last part according to the version the broker claims;
nothing else can follow the filter servers, so we read it when it is there.
"""

import struct
import zlib
from enum import StrEnum

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.wire.bodies.mappings import QueueMapping, QueueMappingDetail
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.fastjson import decode_body, decode_plain_body, encode_body
from hanabi.wire.header import Int32, Int64

INFLATED_BYTES_MAX = (
    16 * 1024 * 1024
)  # the most a frame could hold uncompressed: a stream that unfolds to more is an attack
PARTS_MAX = 50_000  # topics and mappings together, at 3 us each; uncompressed, 5.x fits some 70,000 into a frame
_LENGTH = struct.Struct(">i")


class TopicFilterType(StrEnum):
    """The number of tags a message of the topic may carry."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class DataVersion(Body, frozen=True, kw_only=True, gc=False):
    """The version of a table: equal versions mean equal tables."""

    counter: Int64 = always_written(0)
    state_version: Int64 = 0  # 5.x only, and left out while it is 0: absent means 0 to 5.x, nothing to 4.x
    timestamp: Int64 = always_written(0)


class TopicConfig(Body, frozen=True, kw_only=True):
    """The settings of one topic on one broker."""

    attributes: dict[str, str] | None = None  # 5.x only
    order: bool = always_written(False)
    perm: Int32 = always_written(6)
    read_queue_nums: Int32 = always_written(16)
    topic_filter_type: str = always_written(TopicFilterType.SINGLE_TAG.value)
    topic_name: str
    topic_sys_flag: Int32 = always_written(0)
    write_queue_nums: Int32 = always_written(16)


class TopicConfigTable(Body, frozen=True, kw_only=True):
    """All topics of one broker (Java's TopicConfigSerializeWrapper)."""

    data_version: DataVersion = always_written_new(DataVersion)
    mapping_data_version: DataVersion | None = None  # 5.x only, as are the two mapping tables
    topic_config_table: dict[str, TopicConfig] = always_written_new(dict)
    topic_queue_mapping_detail_map: dict[str, QueueMappingDetail] | None = None
    topic_queue_mapping_info_map: dict[str, QueueMapping] | None = None


class TopicConfigList(Body, frozen=True, kw_only=True):
    """5.x: topics to create at once (Java's CreateTopicListRequestBody)."""

    topic_config_list: list[TopicConfig] = always_written_new(list)


class RegisterBrokerBody(Body, frozen=True, kw_only=True):
    """The topics of a broker, and its filter servers."""

    filter_server_list: list[str] = always_written_new(list)
    topic_config_serialize_wrapper: TopicConfigTable = always_written_new(TopicConfigTable)


def decode_register_body(
    data: bytes, compressed: bool, *, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> RegisterBrokerBody:
    """Return the body of a register request; its header says whether it is *compressed*."""
    if not compressed:
        return decode_body(data, RegisterBrokerBody)
    parts = _Parts(_inflate(data, inflated_bytes_max))
    data_version = decode_plain_body(parts.take(), DataVersion)
    topics = _decode_lines([parts.take() for _ in range(parts.count())])
    filter_servers = decode_plain_body(parts.take(), list[str])
    mappings: dict[str, QueueMapping] | None = None
    if not parts.at_end:
        listed = _decode_mappings([parts.take() for _ in range(parts.count())])
        mappings = {mapping.topic: mapping for mapping in listed if mapping.topic is not None}
    return RegisterBrokerBody(
        filter_server_list=filter_servers,
        topic_config_serialize_wrapper=TopicConfigTable(
            data_version=data_version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map=mappings,
        ),
    )


def encode_register_body(body: RegisterBrokerBody, compress: bool) -> bytes:
    """Return the body of a register request, for a header with the same *compress*.

    Compressed, it loses each topic's `order` and `topic_sys_flag`, as Java's does. Attributes and mappings are written
    only where there are any: a 4.x name server does not expect them.
    """
    if not compress:
        return encode_body(body)
    table = body.topic_config_serialize_wrapper
    topics = table.topic_config_table.values()
    pieces = [_part(encode_body(table.data_version)), _LENGTH.pack(len(topics))]
    pieces += [_part(_encode_line(topic)) for topic in topics]
    pieces.append(_part(encode_body(body.filter_server_list)))
    mappings = table.topic_queue_mapping_info_map
    if mappings is not None:
        pieces.append(_LENGTH.pack(len(mappings)))
        pieces += [_part(encode_body(mapping)) for mapping in mappings.values()]
    return zlib.compress(b"".join(pieces), zlib.Z_BEST_COMPRESSION)


class _Parts:
    """Takes length-prefixed parts off a buffer, one after another. Invariant: 0 <= position <= len(data)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._left = PARTS_MAX

    @property
    def at_end(self) -> bool:
        return self._position == len(self._data)

    def count(self) -> int:
        """Return a number of parts that follow: never more than there are bytes left for their lengths."""
        number = self._number()
        if number < 0 or number * _LENGTH.size > len(self._data) - self._position:
            raise RemoteProtocolError(f"bad RegisterBrokerBody: {number} parts announced at {self._position}")
        self._left -= number
        if self._left < 0:
            raise RemoteProtocolError(f"bad RegisterBrokerBody: more than {PARTS_MAX} topics and mappings")
        return number

    def take(self) -> bytes:
        size = self._number()
        start, end = self._position, self._position + size
        if size < 0 or end > len(self._data):
            raise RemoteProtocolError(f"bad RegisterBrokerBody: {size} bytes announced at {start}")
        self._position = end
        return self._data[start:end]

    def _number(self) -> int:
        try:
            (number,) = _LENGTH.unpack_from(self._data, self._position)
        except struct.error as error:
            raise RemoteProtocolError(f"bad RegisterBrokerBody: it ends at {len(self._data)}") from error
        self._position += _LENGTH.size
        return int(number)


def _part(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _inflate(data: bytes, limit: int) -> bytes:
    """Unpack *data*; the memory used never exceeds *limit* by more than a byte."""
    try:
        inflated = zlib.decompressobj().decompress(data, limit + 1)
    except zlib.error as error:
        raise RemoteProtocolError(f"bad RegisterBrokerBody: {error}") from error
    if len(inflated) > limit:
        raise RemoteProtocolError(f"bad RegisterBrokerBody: inflates to more than {limit} bytes")
    return inflated


class _Line(msgspec.Struct, array_like=True):
    """The words of a topic's line, in their order."""

    name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    filter_type: str
    attributes: str = ""  # the rest of the line: JSON may have blanks in it


def _decode_lines(lines: list[bytes]) -> list[TopicConfig]:
    try:
        # One by one: thousands of lists of words at once would keep the garbage collector busy.
        return [_decode_line(line.decode().split(" ", 5)) for line in lines]
    except (ValueError, RecursionError) as error:  # not UTF-8, or msgspec's own
        raise RemoteProtocolError(f"bad topic in RegisterBrokerBody: {error}") from error


def _decode_line(words: list[str]) -> TopicConfig:
    line = msgspec.convert(words, _Line, strict=False)
    return TopicConfig(
        attributes=_attributes(line.attributes) if line.attributes else None,
        perm=line.perm,
        read_queue_nums=line.read_queue_nums,
        topic_filter_type=line.filter_type,
        topic_name=line.name,
        write_queue_nums=line.write_queue_nums,
    )


_attributes = msgspec.json.Decoder(dict[str, str], strict=False).decode


def _decode_mappings(parts: list[bytes]) -> list[QueueMapping]:
    """Return all at once, as one list: their maps have bare number keys, which is not worth finding out for each of
    them."""
    mappings = decode_plain_body(b"[%b]" % b",".join(parts), list[QueueMapping])
    if len(mappings) != len(parts):
        raise RemoteProtocolError(f"bad RegisterBrokerBody: {len(mappings)} mappings in {len(parts)} parts")
    return mappings


def _encode_line(topic: TopicConfig) -> bytes:
    words = [
        topic.topic_name,
        str(topic.read_queue_nums),
        str(topic.write_queue_nums),
        str(topic.perm),
        topic.topic_filter_type,
    ]
    if topic.attributes:
        words.append(encode_body(topic.attributes).decode())
    return " ".join(words).encode()
