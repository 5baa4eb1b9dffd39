"""The body of a batch: several messages of one topic, sent in one request (code 320).

     0  size             i32   of this message
     4  magic            i32   0: neither this nor the next is checked
     8  body crc         i32   0
    12  flag             i32
    16  body length      i32, body
        property length  i16, properties

and the next one behind it. Agrees with Java's MessageDecoder.encodeMessage and decodeMessage.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX

_HEAD = struct.Struct(">iiiii")
_I16 = struct.Struct(">h")
_OVERHEAD_BYTES = _HEAD.size + _I16.size


class BatchMessage(NamedTuple):
    """One message of a batch; the properties are encoded."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """Return the body of a batch request."""
    pieces: list[bytes] = []
    for flag, body, properties in messages:
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise MQError(f"properties of {len(properties)} bytes, limit {PROPERTIES_BYTES_MAX}")
        size = _OVERHEAD_BYTES + len(body) + len(properties)
        try:
            head = _HEAD.pack(size, 0, 0, flag, len(body))
        except struct.error as error:
            raise MQError(f"a batch cannot hold this: {error}") from error
        pieces += (head, body, _I16.pack(len(properties)), properties)
    return b"".join(pieces)


def decode_batch(batch: bytes) -> list[BatchMessage]:
    """Return the messages of a batch. Nothing is returned unless every length in it is right."""
    return list(each_of_batch(batch))


def each_of_batch(batch: bytes) -> Iterator[BatchMessage]:
    """Yield the messages of a batch, one at a time. An error says which length is wrong, when it is reached."""
    position, end = 0, len(batch)
    while position < end:
        left = end - position
        if left < _OVERHEAD_BYTES:
            raise RemoteProtocolError(f"batch at {position}: {left} bytes left, a message has {_OVERHEAD_BYTES}")
        size, _, _, flag, body_bytes = _HEAD.unpack_from(batch, position)
        body_start = position + _HEAD.size
        body_end = body_start + body_bytes
        if body_bytes < 0 or body_end + 2 > end:
            raise RemoteProtocolError(f"batch at {position}: body of {body_bytes} bytes, {left} bytes left")
        (properties_bytes,) = _I16.unpack_from(batch, body_end)
        message_end = body_end + 2 + properties_bytes
        if properties_bytes < 0 or message_end > end or message_end - position != size:
            raise RemoteProtocolError(
                f"batch at {position}: size {size}, properties of {properties_bytes} bytes, {left} bytes left"
            )
        yield BatchMessage(flag, batch[body_start:body_end], batch[body_end + 2 : message_end])
        position = message_end
